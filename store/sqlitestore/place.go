package sqlitestore

import "github.com/cairn-agents/cairn"

// A numbered row of a session or log has one integer key, its place: the owner's key in the upper bits, the number in
// the lower 31. These are the conditions of statements on the rows of the owner ?1. Those with a number ?2 accept any
// number, but find only rows of that owner.
const (
	ofOwner    = `place >= ?1 << 31 AND place < (?1 + 1) << 31`
	fromNumber = `place >= (?1 << 31) + min(max(?2, 0), 0x80000000) AND place < (?1 + 1) << 31`
	overNumber = `place > (?1 << 31) + min(max(?2, -1), 0x7fffffff) AND place < (?1 + 1) << 31`
	upToNumber = `place >= ?1 << 31 AND place <= (?1 << 31) + min(max(?2, -1), 0x7fffffff)`
	lessNumber = `place >= ?1 << 31 AND place < (?1 << 31) + min(max(?2, 0), 0x80000000)`

	placeNumber = `(place & 0x7fffffff)` // the number of a row
)

// maxNumber is the largest number that a row can have.
const maxNumber = 1<<31 - 1

// placeOf returns the place of a row to be written. The error is ErrTooLarge if the number does not fit.
func placeOf(owner, number int64) (int64, error) {
	if number < 0 || number > maxNumber {
		return 0, cairn.Errorf(cairn.ErrTooLarge, "number %d is too large (max %d in SQLite)", number, maxNumber)
	}
	return owner<<31 + number, nil
}
