package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// JoinNames joins the partitions' names of topics, each once. Those come last that are among the last of any.
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
