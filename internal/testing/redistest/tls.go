package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartTLS starts a redis-server like Start that also speaks TLS, at tlsAddr, with a certificate
// for localhost and 127.0.0.1. roots trusts the certificate.
func StartTLS(tb testing.TB, args ...string) (s *Server, tlsAddr string, roots *x509.CertPool) {
	tb.Helper()
	port, c := freePort(tb), newCertificate(tb)
	return Start(tb, append(c.args(port), args...)...), fmt.Sprintf("127.0.0.1:%d", port), c.roots
}

// StartTLSSentinel starts a redis-server like StartTLS, and a sentinel that reports it by its host name, localhost, and
// connects to it by TLS. tlsAddr is the sentinel's address.
func StartTLSSentinel(tb testing.TB) (master *Server, tlsAddr string, roots *x509.CertPool) {
	tb.Helper()
	port, masterPort, c := freePort(tb), freePort(tb), newCertificate(tb)
	master = Start(tb, c.args(masterPort)...)
	startSentinel(tb, fmt.Sprint("localhost:", masterPort), 1,
		fmt.Sprint("tls-port ", port), "tls-cert-file "+c.file, "tls-key-file "+c.key, "tls-ca-cert-file "+c.file,
		"tls-auth-clients no", "tls-replication yes", "sentinel announce-hostnames yes")
	return master, fmt.Sprint("localhost:", port), c.roots
}

// StartTLSCluster starts a cluster like StartCluster. Its nodes also speak TLS, to each other too, and announce their host name,
// localhost. addrs are their TLS addresses.
func StartTLSCluster(tb testing.TB) (c *Cluster, addrs []string, roots *x509.CertPool) {
	tb.Helper()
	cert := newCertificate(tb)
	c = start(&Cluster{TB: tb, cert: &cert, args: []string{"--tls-cluster", "yes", "--tls-replication", "yes",
		"--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"}})
	for _, s := range c.Servers {
		addrs = append(addrs, fmt.Sprint("127.0.0.1:", s.Strings("CONFIG", "GET", "tls-port")[1]))
	}
	return c, addrs, cert.roots
}

type certificate struct {
	file, key string
	roots     *x509.CertPool
}

// args returns the settings of a server that speaks TLS on the given port.
func (c certificate) args(port int) []string {
	return []string{"--tls-port", fmt.Sprint(port), "--tls-cert-file", c.file, "--tls-key-file", c.key,
		"--tls-ca-cert-file", c.file, "--tls-auth-clients", "no"}
}

func newCertificate(tb testing.TB) certificate {
	tb.Helper()
	dir := tb.TempDir()
	file, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return certificate{file, key, WriteCertificate(tb, file, key)}
}

// WriteCertificate creates a self-signed certificate for localhost and 127.0.0.1.
func WriteCertificate(tb testing.TB, certFile, keyFile string) *x509.CertPool {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Check(tb, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "redistest"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Check(tb, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	Check(tb, err)
	Check(tb, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	Check(tb, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	cert, err := x509.ParseCertificate(der)
	Check(tb, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return roots
}
