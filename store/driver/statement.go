package driver

import (
	"bytes"
	sqldriver "database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Statement is one SQL statement that a tool has recorded with its call.
type Statement struct {
	// Dialect is the dialect of the store that executes the statement.
	Dialect string `json:"dialect"`
	// Tool is the tool whose call recorded the statement. Errors name it.
	Tool string `json:"tool"`
	SQL  string `json:"sql"`
	Args Args   `json:"args,omitempty"`
}

const (
	// MaxStatement is the maximum size of a statement in bytes, its arguments included.
	MaxStatement = 1 << 20
	// MaxStatements is the maximum number of statements that one call may record.
	MaxStatements = 100
)

// verbs are the words that a statement may begin with. They exclude words that end the transaction or change the
// connection or the schema.
var verbs = []string{"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "SELECT", "WITH", "CALL"}

// Exec records a statement for the store of a dialect with a tool's call. The Exec functions of the stores' packages
// call it. It checks and converts the arguments, see [Args].
func Exec(call *cairn.Call, dialect, sql string, args ...any) error {
	if call == nil || call.Step == nil {
		return cairn.Invalid("call", "must be the call of a running tool")
	}
	s := Statement{Dialect: dialect, Tool: call.Tool, SQL: sql, Args: make(Args, len(args))}
	for i, arg := range args {
		var err error
		if s.Args[i], err = argument(arg); err != nil {
			return cairn.Invalid("args", "args[%d]: %v", i, err)
		}
	}
	if err := s.Validate(); err != nil {
		return err
	}
	return define.Exec(call, s.Dialect, s.SQL, s.Args)
}

// Validate reports why a statement cannot be kept. The error is ErrInvalid or ErrTooLarge and names the field.
func (s *Statement) Validate() error {
	if err := cairn.CheckText("sql", s.SQL); err != nil {
		return err
	}
	size := len(s.SQL)
	for i, arg := range s.Args {
		problem := ""
		switch arg := arg.(type) {
		case nil, bool, int64:
			size += 8
		case float64:
			problem = limits.Number(arg)
		case string:
			size += len(arg)
			problem = limits.Text(arg)
		case []byte:
			size += len(arg)
		case time.Time:
			if y := arg.Year(); y < 1 || y > 9999 {
				problem = fmt.Sprintf("is in the year %d", y)
			}
		default:
			problem = fmt.Sprintf("has the type %T", arg)
		}
		if problem != "" {
			return cairn.Invalid("args", "args[%d] %s", i, problem)
		}
	}
	if size > MaxStatement {
		return &cairn.Error{Code: cairn.ErrTooLarge, Field: "sql",
			Message: fmt.Sprintf("sql: statement with its arguments is too large: %d bytes (max %d)", size, MaxStatement)}
	}
	if word := firstWord(s.SQL); !slices.Contains(verbs, word) {
		return cairn.Invalid("sql", "statement begins with %q, must begin with one of %s", limits.Cut(word, 40), strings.Join(verbs, ", "))
	}
	return nil
}

// firstWord returns the first word of a statement in capitals, skipping comments.
func firstWord(sql string) string {
	for {
		sql = strings.TrimSpace(sql)
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql, "*/")
		default:
			end := strings.IndexFunc(sql, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
			if end < 0 {
				end = len(sql)
			}
			return strings.ToUpper(sql[:end])
		}
	}
}

// StatementFailed returns the ErrStatement error of a statement that the database refused or that took too long. The
// commit that it was part of was not applied. It is for implementers.
func StatementFailed(s *Statement, err error) error {
	return cairn.Errorf(cairn.ErrStatement, "tool %q: its statement for %s failed: %w", s.Tool, s.Dialect, err)
}

// IsStatementFailed reports whether StatementFailed returned an error.
func IsStatementFailed(err error) bool {
	return err != nil && cairn.AsError(err).Code == cairn.ErrStatement
}

// Args are the arguments of a statement: nil, bool, int64, float64, string, []byte and [time.Time]. Their JSON keeps
// the types: a number is an int64, and an object names any other type that JSON lacks.
type Args []any

// argument converts a value to the type of an argument, as database/sql does.
func argument(v any) (any, error) {
	v, err := sqldriver.DefaultParameterConverter.ConvertValue(v)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []byte:
		if v == nil {
			return nil, nil
		}
		return bytes.Clone(v), nil
	case time.Time:
		return v.Round(0).UTC(), nil
	}
	return v, nil
}

// tagged is the stored form of an argument whose type JSON lacks.
type tagged struct {
	Float *float64   `json:"float,omitempty"`
	Bytes *[]byte    `json:"bytes,omitempty"`
	Time  *time.Time `json:"time,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (a Args) MarshalJSON() ([]byte, error) {
	list := make([]any, len(a))
	for i, arg := range a {
		switch arg := arg.(type) {
		case float64:
			list[i] = tagged{Float: &arg}
		case []byte:
			list[i] = tagged{Bytes: &arg}
		case time.Time:
			list[i] = tagged{Time: &arg}
		default:
			list[i] = arg
		}
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Args) UnmarshalJSON(raw []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*a = make(Args, len(list))
	for i, raw := range list {
		var err error
		if (*a)[i], err = decodeArgument(raw); err != nil {
			return fmt.Errorf("args[%d]: %w", i, err)
		}
	}
	return nil
}

func decodeArgument(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case 't', 'f':
		return raw[0] == 't', nil
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case '{':
		var t tagged
		err := json.Unmarshal(raw, &t)
		switch {
		case t.Float != nil:
			return *t.Float, err
		case t.Bytes != nil:
			return *t.Bytes, err
		case t.Time != nil:
			return *t.Time, err
		}
		return nil, fmt.Errorf("object of unknown type")
	}
	var n int64
	err := json.Unmarshal(raw, &n)
	return n, err
}
