// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const proxyUser, proxyPassword = "porter", "canary-proxy-password"

// proxyStub is a proxy that wants proxyUser, and counts whom it let through.
type proxyStub struct {
	url   string // with the credentials
	pem   string // of its certificate, with https
	let   atomic.Int64
	certs atomic.Int64 // client certificates that it was shown
}

func newProxy(t *testing.T, scheme string) *proxyStub {
	t.Helper()
	p := &proxyStub{}
	userinfo := proxyUser + ":" + proxyPassword + "@"
	switch scheme {
	case "http":
		server := httptest.NewServer(p)
		t.Cleanup(server.Close)
		p.url = "http://" + userinfo + server.Listener.Addr().String()
	case "https":
		server := httptest.NewUnstartedServer(p)
		server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		server.StartTLS()
		t.Cleanup(server.Close)
		p.url, p.pem = "https://"+userinfo+server.Listener.Addr().String(), certificatePEM(server.Certificate())
	default:
		p.url = scheme + "://" + userinfo + p.serveSOCKS(t)
	}
	return p
}

// ServeHTTP is the proxy over HTTP: tunnels for CONNECT, and whole URLs for the rest.
func (p *proxyStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil {
		p.certs.Add(int64(len(r.TLS.PeerCertificates)))
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+proxyPassword))
	if r.Header.Get("Proxy-Authorization") != want {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	p.let.Add(1)
	if r.Method != http.MethodConnect {
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}).ServeHTTP(w, r)
		return
	}
	upstream, err := net.Dial("tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = upstream.Close()
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	splice(client, buffered, upstream)
}

func splice(client net.Conn, from io.Reader, upstream net.Conn) {
	go func() { _, _ = io.Copy(upstream, from); _ = upstream.Close() }()
	_, _ = io.Copy(client, upstream)
	_ = client.Close()
}

// serveSOCKS is the proxy over SOCKS5 (RFC 1928 and 1929).
func (p *proxyStub) serveSOCKS(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				upstream, err := p.greet(client)
				if err != nil {
					_ = client.Close()
					return
				}
				splice(client, client, upstream)
			}()
		}
	}()
	return listener.Addr().String()
}

func (p *proxyStub) greet(client net.Conn) (net.Conn, error) {
	field := func() (string, error) { // a length, and as many bytes
		var n [1]byte
		if _, err := io.ReadFull(client, n[:]); err != nil {
			return "", err
		}
		text := make([]byte, n[0])
		_, err := io.ReadFull(client, text)
		return string(text), err
	}
	skip := func(n int64) error { _, err := io.CopyN(io.Discard, client, n); return err }
	_, err1 := client.Write(nil)
	err2 := skip(1)
	_, err3 := field() // methods
	_, err4 := client.Write([]byte{5, 2})
	err5 := skip(1)
	user, err6 := field()
	password, err7 := field()
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return nil, err
	}
	if user != proxyUser || password != proxyPassword {
		_, _ = client.Write([]byte{1, 1})
		return nil, errors.New("refused")
	}
	var head [4]byte
	_, err1 = client.Write([]byte{1, 0})
	_, err2 = io.ReadFull(client, head[:])
	host := ""
	if head[3] == 3 {
		host, err3 = field()
	} else {
		ip := make(net.IP, 4)
		_, err3 = io.ReadFull(client, ip)
		host = ip.String()
	}
	var port [2]byte
	_, err4 = io.ReadFull(client, port[:])
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	upstream, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:])))))
	if err != nil {
		return nil, err
	}
	p.let.Add(1)
	_, err = client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	return upstream, err
}

// TestProxies reaches every kind of upstream through every kind of proxy.
func TestProxies(t *testing.T) {
	t.Parallel()
	plain, secure := gittest.New(t), gittest.New(t, gittest.WithTLS())
	plainRepo, secureRepo := plain.Repo(t, "demo"), secure.Repo(t, "demo")
	first := plainRepo.Commit(t, "main", map[string]string{"a": "1"})
	secureRepo.Commit(t, "main", map[string]string{"a": "1"})
	ca := string(secure.CertificatePEM())
	for _, scheme := range []string{"http", "https", "socks5", "socks5h"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, scheme)
			for _, def := range []mirror.Definition{
				{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: plainRepo.URL(), CAPEM: p.pem}},
				{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: secureRepo.URL(), CAPEM: ca + p.pem}},
				withCA(sshDefinition(plain, plainRepo), p.pem),
			} {
				f := newFixture(t, "")
				f.def = def
				f.def.ProxyURL = secret.Text(p.url)
				if err := f.Check(f.def); err != nil {
					t.Fatal(err)
				}
				before := p.let.Load()
				f.fetch(t)
				f.wantRefs(t, map[string]string{"heads/main": first})
				if p.let.Load() == before {
					t.Errorf("%s: the proxy was passed by", def.URL)
				}

				f.def.ProxyURL = secret.Text(strings.Replace(p.url, proxyPassword, "canary-wrong", 1))
				err := wantReason(t, f.try(t.Context()), reason.UpstreamUnreachable)
				if strings.Contains(err.Error(), "canary") || !strings.Contains(err.Message, "roxy") {
					t.Errorf("%s: got %q, want it to name the proxy and hold no password", def.URL, err)
				}
			}
		})
	}
}

func withCA(def mirror.Definition, pem string) mirror.Definition {
	def.CAPEM = pem
	return def
}

func TestProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	p := newProxy(t, "http")
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, repo.URL())
	f.proxy = http.ProxyURL(u)
	f.reopen(t)
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
	if p.let.Load() == 0 {
		t.Error("the environment's proxy was passed by")
	}
	before := p.let.Load()
	f.def, f.have = sshDefinition(server, repo), mirror.Content{}
	f.fetch(t)
	if p.let.Load() != before {
		t.Error("SSH went through a proxy that the environment has for the web")
	}
}

func TestProxyURLIsChecked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "https://git.example/x")
	for _, bad := range []string{"proxy:3128", "ftp://canary@proxy", "http://", "http://proxy/path", "http://u:canary%zz@proxy", "socks5://proxy?x=canary"} {
		f.def.ProxyURL = secret.Text(bad)
		err := f.Check(f.def)
		field, ok := errors.AsType[*mirror.FieldError](err)
		if !ok || field.Field != "proxy_url" || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want proxy_url refused without its text", bad, err)
		}
	}
}
