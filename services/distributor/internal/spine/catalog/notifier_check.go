// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Bounds of a notifier.
const (
	// maxNotifiers bounds the notifiers of a project: each is asked about each event.
	maxNotifiers         = 64
	maxNotifierItems     = 64
	maxNotifierLabels    = 16
	maxNotifierAfter     = 24 * time.Hour
	minGroupWindow       = time.Second
	maxGroupWindow       = time.Hour
	maxMessagesPerMinute = 600
	maxTextExpression    = 2 << 10
	maxSinkURL           = 2 << 10
	minHMACKey           = 16
	maxHMACKey           = 256
	maxSinkSecret        = 1 << 10
	maxReceivers         = 32
	maxStatusContext     = 100
)

// Validate implements Object.
func (n *Notifier) Validate() error {
	s := n.Spec
	return cmp.Or(
		n.validate(KindNotifier),
		check.Description(s.Description),
		n.validatePlace(),
		fielderr.Each("spec.events", "items", s.Events, len(notice.Kinds()), validateEvent),
		fielderr.Each("spec.projects", "items", s.Projects, maxNotifierItems, objectname.ValidateLabel),
		fielderr.Each("spec.services", "items", s.Services, maxNotifierItems, check.NamePattern),
		validateSelectedLabels(s.ClusterLabels),
		check.Within("spec.after", s.After, time.Second, maxNotifierAfter),
		check.Within("spec.group_window", s.GroupWindow, minGroupWindow, maxGroupWindow),
		validateRate(s.MaxPerMinute),
		s.validateText(),
		s.validateSink(),
		check.CA(s.CAPEM),
	)
}

// validatePlace keeps a notifier that sees all projects out of those: it belongs to the hub.
func (n *Notifier) validatePlace() error {
	if n.Spec.AllProjects && objectname.Project(n.Name) != objectname.Default {
		return fielderr.New("spec.all_projects", "makes the notifier one of the hub; leave out metadata.project")
	}
	if !n.Spec.AllProjects && len(n.Spec.Projects) > 0 {
		return fielderr.New("spec.projects", "needs spec.all_projects: the notifier sees its own project alone")
	}
	return nil
}

func validateEvent(field string, kind notice.Kind) error {
	if !slices.Contains(notice.Kinds(), kind) {
		known := make([]string, len(notice.Kinds()))
		for i, one := range notice.Kinds() {
			known[i] = string(one)
		}
		return fielderr.New(field, "%.80q does not exist; the events are %s", string(kind), strings.Join(known, ", "))
	}
	return nil
}

func validateSelectedLabels(labels map[string]string) error {
	if len(labels) > maxNotifierLabels {
		return fielderr.New("spec.cluster_labels", "has %d items; at most %d are allowed", len(labels), maxNotifierLabels)
	}
	return check.Labels("spec.cluster_labels", labels)
}

func validateRate(perMinute int32) error {
	if perMinute < 0 || perMinute > maxMessagesPerMinute {
		return fielderr.New("spec.max_per_minute", "is %d; from 1 to %d are allowed", perMinute, maxMessagesPerMinute)
	}
	return nil
}

// validateText tries the expression on an example of every kind that the notifier is sent.
func (s NotifierSpec) validateText() error {
	if len(s.Text) > maxTextExpression {
		return fielderr.New("spec.text", "has %d bytes; at most %d are allowed", len(s.Text), maxTextExpression)
	}
	if s.Text == "" {
		return nil
	}
	for _, kind := range append(notice.Kinds(), notice.Test) {
		if kind != notice.Test && !s.Subscribes(kind) {
			continue
		}
		example := notice.Example(kind, "example", time.Unix(0, 0).UTC())
		if _, err := example.Text(context.Background(), s.Text); err != nil {
			return fielderr.New("spec.text",
				"%v for an example of %s; self holds the message, see docs/guides/notifications.md", err, kind)
		}
	}
	return nil
}

func (s NotifierSpec) validateSink() error {
	switch s.Sink.Type {
	case SinkSlack:
		return validateSinkURL("spec.slack.url", s.Secrets.URL.Reveal())
	case SinkWebhook:
		if n := len(s.Secrets.HMACKey); n != 0 && (n < minHMACKey || n > maxHMACKey) {
			return fielderr.New("spec.webhook.hmac_key", "has %d bytes; from %d to %d are allowed", n, minHMACKey, maxHMACKey)
		}
		return validateSinkURL("spec.webhook.url", s.Secrets.URL.Reveal())
	case SinkCommitStatus:
		return s.validateCommit()
	case SinkEmail:
		return s.validateEmail()
	}
	return fielderr.New("spec", "has no sink: slack, webhook, commitStatus or email")
}

// validateSinkURL never repeats the URL: it is a secret. Empty: the stored one is meant.
func validateSinkURL(field, text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case len(text) > maxSinkURL:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), maxSinkURL)
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Opaque != "":
		return fielderr.New(field, "is not the URL of an endpoint: scheme, host and path")
	case u.Scheme != "https" && (u.Scheme != "http" || !check.IsLoopback(u.Hostname())):
		return fielderr.New(field, "does not begin with https://, which is required of a sink")
	}
	return nil
}

func (s NotifierSpec) validateCommit() error {
	c := s.Sink.Commit
	if !slices.Contains([]string{ForgeGitHub, ForgeGitLab, ForgeGitea}, c.Provider) {
		return fielderr.New("spec.commit_status.provider", "%.80q is not known: github, gitlab, or gitea, which is for Forgejo, too", c.Provider)
	}
	if c.URL == "" {
		return fielderr.New("spec.commit_status.url", "is required: the base URL of the API, such as https://api.github.com")
	}
	if len(c.Repositories) == 0 {
		return fielderr.New("spec.commit_status.repositories", "is required: whose commits get statuses")
	}
	for _, kind := range s.Events {
		if !slices.Contains(notice.CommitKinds(), kind) {
			return fielderr.New("spec.events", "%q changes no commit's status; leave it out", string(kind))
		}
	}
	return cmp.Or(
		validateSinkURL("spec.commit_status.url", c.URL),
		fielderr.Each("spec.commit_status.repositories", "items", c.Repositories, maxNotifierItems, objectname.Validate),
		check.Line("spec.commit_status.context", c.Context, maxStatusContext),
		validateSinkSecret("spec.commit_status.token", s.Secrets.Token.Reveal()),
	)
}

func validateSinkSecret(field, text string) error {
	if len(text) > maxSinkSecret || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fielderr.New(field, "has more than %d bytes, or a control character", maxSinkSecret)
	}
	return nil
}

func (s NotifierSpec) validateEmail() error {
	e := s.Sink.Email
	if e.Server == "" {
		return fielderr.New("spec.email.server", "is required: HOST:PORT of the mail server")
	}
	if !slices.Contains([]string{"", SecurityStartTLS, SecurityTLS}, e.Security) {
		return fielderr.New("spec.email.security", "%.80q is not known: starttls or tls", e.Security)
	}
	if len(e.To) == 0 {
		return fielderr.New("spec.email.to", "is required: the receivers' addresses")
	}
	return cmp.Or(
		check.Endpoint("spec.email.server", e.Server),
		validateSinkSecret("spec.email.username", e.Username),
		validateSinkSecret("spec.email.password", s.Secrets.Password.Reveal()),
		validateAddress("spec.email.from", e.From),
		fielderr.Each("spec.email.to", "items", e.To, maxReceivers, validateAddress),
	)
}

// validateAddress takes a bare address: a display name could break a header.
func validateAddress(field, address string) error {
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Address != address || len(address) > maxSubjectBytes {
		return fielderr.New(field, "%.80q is not an e-mail address, such as ops@example.com", address)
	}
	return check.Line(field, address, maxSubjectBytes)
}
