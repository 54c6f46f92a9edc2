package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// JoinNames merges the partitions' topic names, each once. Names that are among the last of a partition come last.
func JoinNames(parts [][]string) []string {
	if len(parts) == 1 {
		return parts[0]
	}
	behind := map[string]int{} // how many names of a partition are behind it
	for _, part := range parts {
		for i, name := range part {
			if n, met := behind[name]; !met || len(part)-i < n {
				behind[name] = len(part) - i
			}
		}
	}
	return slices.SortedFunc(maps.Keys(behind), func(a, b string) int {
		return cmp.Or(cmp.Compare(behind[b], behind[a]), strings.Compare(a, b))
	})
}
