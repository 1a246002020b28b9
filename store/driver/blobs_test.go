package driver

import (
	"slices"
	"strconv"
	"testing"
)

// Each blob is in one group, in order, and a group is as large as a Put permits.
func TestBlobGroups(t *testing.T) {
	t.Parallel()
	var rows []BlobRow
	var keys, seen []string
	for i := range 40 {
		rows = append(rows, BlobRow{Key: strconv.Itoa(i), Size: (i + 1) * MaxBlob / 40})
		keys = append(keys, rows[i].Key)
	}
	groups, before := 0, 0
	for group := range BlobGroups(rows) {
		total := 0
		for _, key := range group {
			i, _ := strconv.Atoi(key)
			total += rows[i].Size
		}
		first, _ := strconv.Atoi(group[0])
		if total > MaxBlobsBytes || groups > 0 && before+rows[first].Size <= MaxBlobsBytes {
			t.Errorf("group %d has %d bytes, the one before it %d", groups, total, before)
		}
		seen, before = append(seen, group...), total
		groups++
	}
	if !slices.Equal(seen, keys) || groups < 2 {
		t.Errorf("%d groups with the keys %q", groups, seen)
	}
	for group := range BlobGroups(nil) {
		t.Errorf("a group %q of nothing", group)
	}
}
