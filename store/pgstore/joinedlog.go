package pgstore

// The steps of a joiner by the logs to which they append. The caller of these functions holds the joiner's lock.

// ready returns how many of the pending steps can be sent now.
func (j *joiner) ready() int { return len(j.waiting) - j.blocked }

// blocks reports whether a statement under way appends to a log.
func (j *joiner) blocks(log string) bool {
	l := j.logs[log]
	return l != nil && l.sending
}

// queue adds a step to those that wait.
func (j *joiner) queue(step *joinedStep) {
	j.waiting = append(j.waiting, step)
	if step.log == "" {
		return
	}
	l := j.logOf(step)
	l.waiting++
	if l.sending {
		j.blocked++
	}
}

// leaves notes that a step waits no more.
func (j *joiner) leaves(step *joinedStep) {
	if step.log == "" {
		return
	}
	l := j.logOf(step)
	l.waiting--
	if l.sending {
		j.blocked--
	}
	j.forget(step.log, l)
}

// begin notes that a step, which waits no more, is being sent. The other steps of its log that are not sent with it wait
// for that.
func (j *joiner) begin(step *joinedStep) {
	j.sent++
	if step.log == "" {
		return
	}
	if l := j.logOf(step); !l.sending {
		l.sending = true
		j.blocked += l.waiting
	}
}

// end notes that the statement of a step is done.
func (j *joiner) end(step *joinedStep) {
	j.sent--
	if l := j.logs[step.log]; l != nil && l.sending { // the first step of the log in the statement
		l.sending = false
		j.blocked -= l.waiting
		j.forget(step.log, l)
	}
}

func (j *joiner) logOf(step *joinedStep) *joinedLog {
	l := j.logs[step.log]
	if l == nil {
		l = &joinedLog{}
		if j.logs == nil {
			j.logs = map[string]*joinedLog{}
		}
		j.logs[step.log] = l
	}
	return l
}

// forget forgets a log to which no step appends.
func (j *joiner) forget(log string, l *joinedLog) {
	if l.waiting == 0 && !l.sending {
		delete(j.logs, log)
	}
}
