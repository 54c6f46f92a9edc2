package nearest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	candidates := []string{"host", "port", "password", "max_idle", "max_active", "tls", "tls_ca", "tls_cert"}
	for name, want := range map[string]string{
		"max-idle": "max_idle", "prot": "port", "PORT": "port", "hosts": "host", "hst": "host", "passwd": "password", "pasword": "password",
		"maxidle": "max_idle", "Max-Active": "max_active", "tsl": "tls", "tls_cret": "tls_cert", "tls_cer": "tls_cert", "post": "host",
		"ssl": "tls", "": "", "timeout": "", "abc": "", strings.Repeat("host", 1000): "",
	} {
		if got := Of(name, candidates); got != want {
			t.Errorf("Of(%.20q) = %q, want %q", name, got, want)
		}
	}
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"abc", "abc"}: 0, {"abc", "acb"}: 0, {"abc", "abd"}: 1,
		{"abc", "ab"}: 1, {"abcd", "badc"}: 0, {"kitten", "sitting"}: 3,
	} {
		if got := slips(pair[0], pair[1]); got != want {
			t.Errorf("slips(%q) = %d, want %d", pair, got, want)
		}
	}
}
