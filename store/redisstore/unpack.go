package redisstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"time"
)

var errUnpack = errors.New("unexpected MessagePack")

// unpacker reads MessagePack: maps of texts to texts and numbers, which is all that the scripts pack. After an error
// every value is zero.
type unpacker struct {
	data string
	err  error
}

// next takes n bytes.
func (u *unpacker) next(n int) string {
	if n < 0 || n > len(u.data) {
		u.data, u.err = "", errUnpack
		return ""
	}
	taken := u.data[:n]
	u.data = u.data[n:]
	return taken
}

// uint takes a number of n bytes.
func (u *unpacker) uint(n int) uint64 {
	var number [8]byte
	copy(number[8-n:], u.next(n))
	return binary.BigEndian.Uint64(number[:])
}

// tag takes the byte that gives the type of the next value. At the end it returns 0xc1, which MessagePack never uses.
func (u *unpacker) tag() byte {
	b := u.next(1)
	if b == "" {
		return 0xc1
	}
	return b[0]
}

// pairs begins a map and returns its size. No data at all is an empty map.
func (u *unpacker) pairs() int {
	if u.data == "" {
		return 0
	}
	switch tag := u.tag(); {
	case tag&0xf0 == 0x80:
		return int(tag & 0x0f)
	case tag == 0xde:
		return int(u.uint(2))
	case tag == 0xdf:
		return int(u.uint(4))
	}
	u.err = errUnpack
	return 0
}

// text reads a text.
func (u *unpacker) text() string {
	switch tag := u.tag(); {
	case tag&0xe0 == 0xa0:
		return u.next(int(tag & 0x1f))
	case tag == 0xd9:
		return u.next(int(u.uint(1)))
	case tag == 0xda:
		return u.next(int(u.uint(2)))
	case tag == 0xdb:
		return u.next(int(u.uint(4)))
	}
	u.err = errUnpack
	return ""
}

// number reads a number: n if whole is true, else f.
func (u *unpacker) number() (n int64, f float64, whole bool) {
	switch tag := u.tag(); {
	case tag < 0x80:
		return int64(tag), 0, true
	case tag >= 0xe0:
		return int64(int8(tag)), 0, true
	case tag >= 0xcc && tag <= 0xcf:
		return int64(u.uint(1 << (tag - 0xcc))), 0, true
	case tag >= 0xd0 && tag <= 0xd3:
		size := 1 << (tag - 0xd0)
		shift := 64 - 8*size
		return int64(u.uint(size)<<shift) >> shift, 0, true
	case tag == 0xca:
		return 0, float64(math.Float32frombits(uint32(u.uint(4)))), false
	case tag == 0xcb:
		return 0, math.Float64frombits(u.uint(8)), false
	}
	u.err = errUnpack
	return 0, 0, true
}

func (u *unpacker) int64() int64 {
	n, _, whole := u.number()
	if !whole {
		u.err = errUnpack
	}
	return n
}

func (u *unpacker) float64() float64 {
	n, f, whole := u.number()
	if whole {
		return float64(n)
	}
	return f
}

func (u *unpacker) time() time.Time { return fromMicros(u.int64()) }

// json decodes a text that is JSON; an empty one is ignored.
func (u *unpacker) json(into any) {
	if text := u.text(); u.err == nil && text != "" {
		u.err = json.Unmarshal([]byte(text), into)
	}
}

// skip skips a text or a number.
func (u *unpacker) skip() {
	if u.data == "" {
		u.err = errUnpack
		return
	}
	if tag := u.data[0]; tag&0xe0 == 0xa0 || tag >= 0xd9 && tag <= 0xdb {
		u.text()
		return
	}
	u.number()
}
