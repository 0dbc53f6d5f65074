// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/notify/notifysink"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const mailUser, mailPassword = "leat", "the-password"

// mailServer is an SMTP server that keeps what it takes. It takes messages of the one user alone.
type mailServer struct {
	address string
	// caPEM verifies its certificate.
	caPEM string

	mu sync.Mutex
	// sessions counts connections that began, tried the ones that authenticated, and refusals of the
	// next messages.
	sessions, tried, refusals int
	messages                  []taken
}

// taken is a message that the server took.
type taken struct {
	From string
	To   []string
	text string
}

// mailSession is one connection.
type mailSession struct {
	server     *mailServer
	isKnown    bool
	message    taken
	isOverTLS  bool
	mechanisms []string
}

// startMail runs a server on a loopback port until the test ends. Security is the sink's; empty:
// the server encrypts nothing.
func startMail(t *testing.T, security string) *mailServer {
	t.Helper()
	authority := httptest.NewUnstartedServer(nil)
	authority.StartTLS()
	t.Cleanup(authority.Close)
	m := &mailServer{caPEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}))}
	config := &tls.Config{Certificates: authority.TLS.Certificates, MinVersion: tls.VersionTLS12}
	server := smtp.NewServer(m)
	server.Domain, server.AllowInsecureAuth = "mail.test", true
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = listener.Addr().String()
	switch security {
	case catalog.SecurityTLS:
		listener = tls.NewListener(listener, config)
	case catalog.SecurityStartTLS:
		server.TLSConfig = config
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return m
}

// NewSession implements smtp.Backend.
func (m *mailServer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	_, isOverTLS := c.TLSConnectionState()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions++
	return &mailSession{server: m, isOverTLS: isOverTLS, mechanisms: []string{sasl.Plain}}, nil
}

// AuthMechanisms implements smtp.AuthSession.
func (s *mailSession) AuthMechanisms() []string { return s.mechanisms }

// Auth implements smtp.AuthSession.
func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.tried++
		if s.isKnown = s.isOverTLS && username == mailUser && password == mailPassword; !s.isKnown {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

// Reset implements smtp.Session.
func (s *mailSession) Reset() { s.message = taken{} }

// Logout implements smtp.Session.
func (s *mailSession) Logout() error { return nil }

// Mail implements smtp.Session.
func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	switch {
	case !s.isKnown:
		return smtp.ErrAuthRequired
	case s.server.refusals > 0:
		s.server.refusals--
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "greylisted, come again"}
	}
	s.message.From = from
	return nil
}

// Rcpt implements smtp.Session.
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody@") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox"}
	}
	s.message.To = append(s.message.To, to)
	return nil
}

// Data implements smtp.Session.
func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.message.text = string(text)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.messages = append(s.server.messages, s.message)
	return nil
}

func (m *mailServer) all() []taken {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.messages)
}

// delivery returns one to the server, of a text that tries to add a header and a message of its own.
func (m *mailServer) delivery(security string, to ...string) notify.Delivery {
	d := delivery(catalog.Sink{Type: catalog.SinkEmail, Email: &catalog.EmailSink{
		Server: m.address, Security: security, Username: mailUser, From: "leat@example.com", To: to,
	}}, catalog.NotifierSecrets{Password: mailPassword})
	d.Notifier.Spec.CAPEM = m.caPEM
	d.Text = "first line\r\nBcc: evil@example.com\r\n\r\n.\r\nQUIT\r\n" + "ü"
	return d
}

// TestEmail sends a message by each kind of encryption.
func TestEmail(t *testing.T) {
	t.Parallel()
	for _, security := range []string{catalog.SecurityTLS, catalog.SecurityStartTLS} {
		t.Run(security, func(t *testing.T) {
			t.Parallel()
			server := startMail(t, security)
			to := []string{"a@example.com", "b@example.com"}
			if _, err := sinksWith(notifysink.Pages{URL: uiURL}).Send(t.Context(), server.delivery(security, to...)); err != nil {
				t.Fatal(err)
			}
			got := server.all()
			if len(got) != 1 {
				t.Fatalf("got %d messages", len(got))
			}
			if diff := cmp.Diff(taken{From: "leat@example.com", To: to}, got[0], cmp.AllowUnexported(taken{}), cmp.FilterPath(
				func(p cmp.Path) bool { return p.Last().String() == ".text" }, cmp.Ignore())); diff != "" {
				t.Errorf("envelope (-want +got):\n%s", diff)
			}
			message, err := mail.ReadMessage(strings.NewReader(got[0].text))
			if err != nil {
				t.Fatal(err)
			}
			if h := message.Header; h.Get("Bcc") != "" || h.Get("Message-Id") != "<the-id@example.com>" || h.Get("To") != strings.Join(to, ", ") {
				t.Errorf("got %v", h)
			}
			body, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, message.Body))
			if err != nil || !strings.Contains(string(body), "ü") || !strings.Contains(string(body), "service.failed") || !strings.Contains(string(body), "\n"+uiURL+"services/example\n") {
				t.Errorf("got %s, %v", body, err)
			}
		})
	}
}

// TestEmailRefused: a server that is busy is asked again, and one that refuses is not.
func TestEmailRefused(t *testing.T) {
	t.Parallel()
	server := startMail(t, catalog.SecurityStartTLS)
	server.refusals = 1
	busy := server.delivery(catalog.SecurityStartTLS, "a@example.com")
	if _, err := sinks().Send(t.Context(), busy); refused(t, err).Permanent || !strings.Contains(err.Error(), "greylisted") {
		t.Errorf("a busy server: got %v", err)
	}
	if _, err := sinks().Send(t.Context(), busy); err != nil || len(server.all()) != 1 {
		t.Errorf("the second time: got %v and %d messages", err, len(server.all()))
	}
	if _, err := sinks().Send(t.Context(), server.delivery(catalog.SecurityStartTLS, "nobody@example.com")); !refused(t, err).Permanent {
		t.Errorf("a mailbox that is not there: got %v", err)
	}
	wrong := server.delivery(catalog.SecurityStartTLS, "a@example.com")
	wrong.Secrets.Password = "another"
	if _, err := sinks().Send(t.Context(), wrong); err == nil || strings.Contains(err.Error(), "another") {
		t.Errorf("a wrong password: got %v", err)
	}
	if got := server.all(); len(got) != 1 {
		t.Errorf("got %d messages, want one", len(got))
	}
}

// TestSecMailIsEncrypted: neither a password nor a message is sent to a server that does not encrypt,
// or that has another certificate.
func TestSecMailIsEncrypted(t *testing.T) {
	t.Parallel()
	for name, offered := range map[string]string{"without STARTTLS": "", "with an unknown certificate": catalog.SecurityStartTLS} {
		server := startMail(t, offered)
		d := server.delivery(catalog.SecurityStartTLS, "a@example.com")
		d.Notifier.Spec.CAPEM = ""
		if _, err := sinks().Send(t.Context(), d); err == nil {
			t.Errorf("%s: the message was sent", name)
		}
		server.mu.Lock()
		if server.tried > 0 || len(server.messages) > 0 || server.sessions == 0 {
			t.Errorf("%s: got %d connections, %d passwords and %d messages", name, server.sessions, server.tried, len(server.messages))
		}
		server.mu.Unlock()
	}
}
