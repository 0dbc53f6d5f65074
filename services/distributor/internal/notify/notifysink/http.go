// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Headers of messages.
const (
	// headerID holds the id of the message, the same at every attempt.
	headerID = "Leat-Notification-Id"
	// headerSignature holds t=SECONDS,v1=HEX: the time, and the HMAC-SHA256 of the time in decimal, a dot
	// and the body.
	headerSignature = "Leat-Signature"
)

// cloudEvent is a message as CloudEvents 1.0 has it.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            eventData `json:"data"`
}

// eventData is the content of a message.
type eventData struct {
	Text   string         `json:"text"`
	URL    string         `json:"url,omitempty"`
	Kind   notice.Kind    `json:"kind"`
	Cause  string         `json:"cause,omitempty"`
	Count  int            `json:"count"`
	Events []notice.Event `json:"events"`
}

// typePrefix begins the types of events.
const typePrefix = "dev.leat."

func (s *Sinks) webhook(ctx context.Context, d notify.Delivery) (string, error) {
	m := d.Message
	event := cloudEvent{
		SpecVersion: "1.0", ID: m.ID, Source: s.p.Source, Type: typePrefix + string(m.Kind), Time: m.Time().UTC(), DataContentType: "application/json",
		Data: eventData{Text: d.Text, URL: s.p.Pages.Of(m), Kind: m.Kind, Cause: m.Cause, Count: m.Count, Events: m.Events},
	}
	if m.Count == 1 && len(m.Events) == 1 {
		event.Subject = m.Events[0].Object()
	}
	body, err := json.Marshal(event)
	if err != nil {
		return "", fmt.Errorf("write message: %w", err)
	}
	header := http.Header{"Content-Type": {"application/cloudevents+json; charset=utf-8"}, headerID: {m.ID}}
	if key := d.Secrets.HMACKey.Reveal(); key != "" {
		header.Set(headerSignature, Sign([]byte(key), body, s.p.Now()))
	}
	return s.post(ctx, d, d.Secrets.URL.Reveal(), header, body)
}

// Sign returns the signature of a body.
func Sign(key, body []byte, at time.Time) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// slackEscapes are the characters that mean something in Slack's texts.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (s *Sinks) slack(ctx context.Context, d notify.Delivery) (string, error) {
	text := slackEscapes.Replace(d.Text)
	if page := s.p.Pages.Of(d.Message); page != "" && d.Notifier.Spec.Text == "" {
		text += "\n<" + slackEscapes.Replace(page) + "|Open in Leat>"
	}
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return "", fmt.Errorf("write message: %w", err)
	}
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}, headerID: {d.Message.ID}}
	return s.post(ctx, d, d.Secrets.URL.Reveal(), header, body)
}

// post sends a body once. It returns the receiver's status, and the beginning of its body unless the
// receiver is in a private network: people who may write a notifier may not be able to read there.
func (s *Sinks) post(ctx context.Context, d notify.Delivery, url string, header http.Header, body []byte) (string, error) {
	client, err := s.newClient(d.Notifier)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", &notify.RefusedError{Message: "the sink's URL is not one", Permanent: true} // err holds it
	}
	request.Header = header
	request.Header.Set("User-Agent", "leat")
	isOpen, peer := s.isOpen, net.Addr(nil)
	request = request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(made httptrace.GotConnInfo) { peer = made.Conn.RemoteAddr() }}))
	if proxy, err := http.ProxyFromEnvironment(request); err != nil || proxy != nil {
		isOpen = func(net.Addr) bool { return false }
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // what matters is read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("read answer: %w", err)
	}
	answer := strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	if isOpen(peer) {
		answer = strings.TrimSpace(response.Status + " " + printable(string(text)))
	}
	return answer, refusal(response, answer, s.p.Now())
}

// refusal returns why a receiver did not take a message; nil if it did.
func refusal(response *http.Response, answer string, now time.Time) error {
	code := response.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return &notify.RefusedError{Message: "the receiver redirects, which is not followed; correct the sink's URL: " + answer, Permanent: true}
	}
	passes := code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests
	return &notify.RefusedError{
		Message: "the receiver answered " + answer, Permanent: !passes, RetryAfter: retryAfter(response.Header.Get("Retry-After"), now),
	}
}

// retryAfter reads the header, in seconds or as a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// printable returns a text in one line, without what a terminal would act on.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
	return strings.TrimSpace(text)
}
