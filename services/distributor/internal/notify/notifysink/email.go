// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxSubject bounds the subject of a mail, which is the beginning of its text, in runes.
	maxSubject = 120
	// maxLine is how long the lines of a mail are.
	maxLine = 76
)

func (s *Sinks) email(ctx context.Context, d notify.Delivery) (answer string, err error) {
	sink := d.Notifier.Spec.Sink.Email
	conn, err := s.dialer().DialContext(ctx, "tcp", sink.Server)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // the server has answered by then
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", fmt.Errorf("bound connection: %w", err)
		}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := s.deliver(&boundedConn{Conn: conn, left: maxHeader}, sink, d); err != nil {
		return "", smtpError(err, s.isOpen(conn.RemoteAddr()))
	}
	return "the mail server took the message", nil
}

// deliver speaks SMTP over a connection.
func (s *Sinks) deliver(conn net.Conn, sink *catalog.EmailSink, d notify.Delivery) error {
	host, _, err := net.SplitHostPort(sink.Server)
	if err != nil {
		return &notify.RefusedError{Message: "spec.email.server is not HOST:PORT", Permanent: true}
	}
	config, err := tlsConfig(d.Notifier)
	if err != nil {
		return err
	}
	config.ServerName = host
	if sink.Security == catalog.SecurityTLS {
		conn = tls.Client(conn, config)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if sink.Security != catalog.SecurityTLS {
		if ok, _ := client.Extension("STARTTLS"); !ok {
			return &notify.RefusedError{Message: "the mail server does not offer STARTTLS, and nothing is sent in the clear", Permanent: true}
		}
		if err := client.StartTLS(config); err != nil {
			return err
		}
	}
	if sink.Username != "" {
		if err := client.Auth(smtp.PlainAuth("", sink.Username, d.Secrets.Password.Reveal(), host)); err != nil {
			return err
		}
	}
	if err := client.Mail(sink.From); err != nil {
		return err
	}
	for _, to := range sink.To {
		if err := client.Rcpt(to); err != nil {
			return err
		}
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(s.mail(sink, d)); err != nil {
		return err
	}
	// The server has the message when this returns; how the connection ends does not matter.
	err = w.Close()
	_ = client.Quit()
	return err
}

// mail returns a message. Its Message-ID is the notification's, so that receivers can drop
// duplicates.
func (s *Sinks) mail(sink *catalog.EmailSink, d notify.Delivery) []byte {
	_, domain, _ := strings.Cut(sink.From, "@")
	subject := printable(d.Text)
	if runes := []rune(subject); len(runes) > maxSubject {
		subject = string(runes[:maxSubject-1]) + "…"
	}
	var b bytes.Buffer
	for _, field := range [][2]string{
		{"From", sink.From},
		{"To", strings.Join(sink.To, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", s.p.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700")},
		{"Message-ID", "<" + d.Message.ID + "@" + domain + ">"},
		{headerID, d.Message.ID},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "base64"},
	} {
		b.WriteString(field[0] + ": " + field[1] + "\r\n")
	}
	b.WriteString("\r\n")
	text := d.Text + "\n"
	for _, e := range d.Message.Events {
		text += fmt.Sprintf("\n%s  %s  %s  %s\n", e.Time.UTC().Format("2006-01-02 15:04:05Z"), e.Kind, e.Object(), strings.Trim(e.Reason+": "+e.Message, ": "))
		if page := s.p.Pages.event(e); page != "" {
			text += page + "\n"
		}
	}
	for encoded := base64.StdEncoding.EncodeToString([]byte(text)); encoded != ""; {
		line := encoded[:min(len(encoded), maxLine)]
		encoded = encoded[len(line):]
		b.WriteString(line + "\r\n")
	}
	return b.Bytes()
}

// smtpError returns a refusal for an answer of the server: one that begins with 5 would come again. Of a
// server in a private network it has the code alone.
func smtpError(err error, isOpen bool) error {
	answer, ok := errors.AsType[*textproto.Error](err)
	if !ok {
		return err
	}
	text := fmt.Sprint(answer.Code)
	if isOpen {
		text = printable(answer.Error())
	}
	return &notify.RefusedError{Message: "the mail server answered " + strings.ToValidUTF8(text[:min(len(text), maxAnswer)], ""), Permanent: answer.Code >= 500}
}

// boundedConn ends a conversation in which the peer sends too much.
type boundedConn struct {
	net.Conn
	left int
}

// Read implements io.Reader.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errors.New("the response of the mail server is too long")
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
