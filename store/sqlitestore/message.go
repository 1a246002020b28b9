package sqlitestore

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
)

const (
	sqlInsertMessage = `INSERT INTO messages (place, created_at, run_length, data) VALUES (?1, ?2, ?3, ?4)`

	sqlMessages = `SELECT created_at, run_length, data FROM messages WHERE ` + fromNumber + ` ORDER BY place LIMIT ?3`
)

// messageTime returns a message's time as it is stored; 0 if the message has no time, or one that this form cannot
// hold.
func messageTime(m *cairn.Message) int64 {
	if _, offset := m.CreatedAt.Zone(); offset != 0 || !stored(m.CreatedAt).Equal(m.CreatedAt) {
		return 0
	}
	return micros(m.CreatedAt)
}

// messageRun returns how many bytes at the start of a message's id are the id of its run, before a slash; 0 if it does
// not begin with it.
func messageRun(m *cairn.Message) int {
	if n := len(m.RunID); n > 0 && len(m.ID) > n && m.ID[n] == '/' && m.ID[:n] == m.RunID {
		return n
	}
	return 0
}

// messageText returns the JSON of a message. It omits the time and the run if messageTime and messageRun return them.
func messageText(m *cairn.Message) (string, error) {
	own := *m
	if messageTime(m) != 0 {
		own.CreatedAt = time.Time{}
	}
	if messageRun(m) != 0 {
		own.RunID = ""
	}
	return fastjson.MessageText(&own)
}

// messageTexts returns the JSON of messages, as messageText does.
func messageTexts(list []cairn.Message) (texts []string, err error) {
	if len(list) > 0 {
		texts = make([]string, len(list))
	}
	for i := range list {
		if texts[i], err = messageText(&list[i]); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// insertMessage writes a message. text is the result of messageText.
func insertMessage(c *conn, key int64, number int, m *cairn.Message, text string) error {
	place, err := placeOf(key, int64(number))
	if err != nil {
		return err
	}
	_, err = c.exec(sqlInsertMessage, place, messageTime(m), messageRun(m), text)
	return err
}

func readMessages(ctx context.Context, c *conn, key int64, from, limit int) (list []cairn.Message, err error) {
	err = c.query(ctx, sqlMessages, func(cols *columns) bool {
		list = append(list, readMessage(cols))
		return true
	}, key, from, limit)
	if err != nil {
		return nil, err
	}
	return list, nil
}

func readMessage(c *columns) (m cairn.Message) {
	created, run := c.int64(), c.int()
	c.json("message", &m)
	if run > 0 && run < len(m.ID) {
		m.RunID = m.ID[:run]
	}
	if created != 0 {
		m.CreatedAt = fromMicros(created)
	}
	return m
}
