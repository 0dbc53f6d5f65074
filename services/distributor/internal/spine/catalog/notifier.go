// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Defaults of a notifier.
const (
	DefaultGroupWindow  = 10 * time.Second
	DefaultMaxPerMinute = 30
	// DefaultStatusContext is the name of the status of a commit.
	DefaultStatusContext = "leat"
)

// SinkType is the kind of receiver of a notifier.
type SinkType string

// The types of sinks.
const (
	SinkSlack        SinkType = "slack"
	SinkWebhook      SinkType = "webhook"
	SinkCommitStatus SinkType = "commitStatus"
	SinkEmail        SinkType = "email"
)

// Forges whose commits can have statuses.
const (
	ForgeGitHub = "github"
	ForgeGitLab = "gitlab"
	ForgeGitea  = "gitea"
)

// Ways to encrypt the connection to a mail server.
const (
	SecurityStartTLS = "starttls"
	SecurityTLS      = "tls"
)

// Notifier sends messages to another system when something happens in the fleet.
type Notifier struct {
	Metadata
	Spec NotifierSpec
}

// NotifierSpec selects the messages, and their receiver. Its JSON is its stored form, without
// secrets. Only the adapter that sends reads it back with them.
type NotifierSpec struct {
	Description string `json:"description,omitempty"`
	Suspended   bool   `json:"suspended,omitempty"`
	// AllProjects makes the notifier one of the hub: it sees everything, and so do the people who may
	// see it.
	AllProjects bool `json:"allProjects,omitempty"`
	// Events are the kinds that are sent; none: the default ones of the sink.
	Events []notice.Kind `json:"events,omitempty"`
	// Projects and Services select objects; none: all that the notifier sees. Services are patterns.
	Projects []string `json:"projects,omitempty"`
	Services []string `json:"services,omitempty"`
	// ClusterLabels are labels that the cluster of an event must have.
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
	// After is how long what has failed must last.
	After time.Duration `json:"after,omitempty"`
	// GroupWindow is zero for DefaultGroupWindow, and MaxPerMinute for DefaultMaxPerMinute.
	GroupWindow  time.Duration `json:"groupWindow,omitempty"`
	MaxPerMinute int32         `json:"maxPerMinute,omitempty"`
	// Text is an expression; empty: the default text.
	Text string `json:"text,omitempty"`
	Sink Sink   `json:"sink"`
	// CAPEM are certificates to trust instead of the system's; empty: the system's.
	CAPEM string `json:"caPem,omitempty"`
	// Secrets are the secrets that the sink needs. An update that leaves one out keeps the stored one.
	Secrets NotifierSecrets `json:"-"`
	// RemoveHMACKey removes the stored key in an update. It is not stored.
	RemoveHMACKey bool `json:"-"`
}

// Sink is where a notifier sends to, without secrets.
type Sink struct {
	Type SinkType `json:"type"`
	// Target is the visible part of a secret URL: its scheme and host. Validation does not check it:
	// it is made when the URL is given.
	Target string `json:"target,omitempty"`
	// Commit belongs to SinkCommitStatus, and Email to SinkEmail.
	Commit *CommitSink `json:"commit,omitempty"`
	Email  *EmailSink  `json:"email,omitempty"`
}

// CommitSink is the API of a forge.
type CommitSink struct {
	Provider string `json:"provider"`
	URL      string `json:"url"`
	// Repositories are paths of those whose commits get statuses.
	Repositories []string `json:"repositories"`
	// Context is empty for DefaultStatusContext.
	Context string `json:"context,omitempty"`
}

// EmailSink is a mail server.
type EmailSink struct {
	Server string `json:"server"`
	// Security is empty for SecurityStartTLS.
	Security string   `json:"security,omitempty"`
	Username string   `json:"username,omitempty"`
	From     string   `json:"from"`
	To       []string `json:"to"`
}

// NotifierSecrets are the secrets of a notifier. It is comparable.
type NotifierSecrets struct {
	// URL is the URL of a webhook, and HMACKey signs its messages; empty: they are unsigned.
	URL, HMACKey secret.Text
	// Token is for the API of a forge, and Password for a mail server; empty: it wants none.
	Token, Password secret.Text
}

// Key implements Object.
func (n *Notifier) Key() Key { return Key{KindNotifier, n.Name} }

func (n *Notifier) sameSpec(other Object) bool {
	o, ok := other.(*Notifier)
	return ok && reflect.DeepEqual(n.Spec, o.Spec)
}

func (n *Notifier) clone() Object { return new(*n) }

func (n *Notifier) normalize() { n.Spec.normalize() }

func (n *Notifier) settle(stored Object) error {
	have, _ := stored.(*Notifier)
	return n.settleSecrets(have)
}

func (n *Notifier) reachable() error {
	field, host := "spec."+string(n.Spec.Sink.Type)+".url", ""
	switch n.Spec.Sink.Type {
	case SinkSlack, SinkWebhook:
		host = check.Host(n.Spec.Secrets.URL.Reveal())
	case SinkCommitStatus:
		field, host = "spec.commit_status.url", check.Host(n.Spec.Sink.Commit.URL)
	case SinkEmail:
		field = "spec.email.server"
		host, _, _ = net.SplitHostPort(n.Spec.Sink.Email.Server) // Validate has checked it
	}
	if check.IsLocal(host) {
		return fielderr.New(field, "is an address of the hub's own machine or its link, which it does not dial")
	}
	return nil
}

func (n *Notifier) checkReferences(context.Context, Reader) error { return nil }
func (n *Notifier) checkSettled(context.Context, Reader) error    { return nil }

func (n *Notifier) room(ProjectQuotas) Room { return Room{Most: maxNotifiers, Words: "notifiers"} }

func (n *Notifier) secrets() map[string]any {
	secrets := map[string]any{}
	for path, text := range n.Spec.Secrets.byField(n.Spec.Sink.Type) {
		secrets[path] = text
	}
	return secrets
}

func (n *Notifier) changesRelease(Object) bool { return false }

// Place implements Object. One that sees all projects is the hub's.
func (n *Notifier) Place() Place { return Place{Project: n.Project()} }

// Project returns the project whose objects the notifier sees; empty: it sees all.
func (n *Notifier) Project() string {
	if n.Spec.AllProjects {
		return ""
	}
	return objectname.Project(n.Name)
}

// Subscribes reports whether events of a kind are sent.
func (s NotifierSpec) Subscribes(kind notice.Kind) bool {
	switch {
	case len(s.Events) > 0:
		return slices.Contains(s.Events, kind)
	case s.Sink.Type == SinkCommitStatus:
		return slices.Contains(notice.CommitKinds(), kind)
	}
	return slices.Contains(notice.DefaultKinds(), kind)
}

// Window returns how long events of one cause are collected.
func (s NotifierSpec) Window() time.Duration { return cmp.Or(s.GroupWindow, DefaultGroupWindow) }

// PerMinute returns how many messages may be sent in a minute.
func (s NotifierSpec) PerMinute() int { return int(cmp.Or(s.MaxPerMinute, DefaultMaxPerMinute)) }

// settle gives the stored form to what has several spellings. It works on a clone.
func (s *NotifierSpec) normalize() {
	s.Events, s.Projects, s.Services = slices.Clone(s.Events), slices.Clone(s.Projects), slices.Clone(s.Services)
	if len(s.Events) == 0 {
		s.Events = nil
	}
	if len(s.Projects) == 0 {
		s.Projects = nil
	}
	if len(s.Services) == 0 {
		s.Services = nil
	}
	if s.ClusterLabels = maps.Clone(s.ClusterLabels); len(s.ClusterLabels) == 0 {
		s.ClusterLabels = nil
	}
	s.After, s.GroupWindow = s.After.Truncate(time.Microsecond), s.GroupWindow.Truncate(time.Microsecond)
}

// settleSecrets completes the secrets from the stored notifier, which is nil for a new one. It
// returns an error if a stored secret would then be sent to, or used for, another address than it was
// given for.
func (n *Notifier) settleSecrets(stored *Notifier) error {
	last := Notifier{}
	if stored != nil && stored.Spec.Sink.Type == n.Spec.Sink.Type {
		last = *stored
	}
	s, had := &n.Spec.Secrets, last.Spec.Secrets
	var err error
	switch n.Spec.Sink.Type {
	case SinkSlack:
		err = settleURL("spec.slack.url", &n.Spec.Sink, s, last)
	case SinkWebhook:
		if s.URL != "" && had.URL != "" && s.URL != had.URL && s.HMACKey == "" && had.HMACKey != "" && !n.Spec.RemoveHMACKey {
			return fielderr.New("spec.webhook.hmac_key", "is required with another url: the stored one belongs to another receiver")
		}
		if s.HMACKey == "" && !n.Spec.RemoveHMACKey {
			s.HMACKey = had.HMACKey
		}
		err = settleURL("spec.webhook.url", &n.Spec.Sink, s, last)
	case SinkCommitStatus:
		if s.Token == "" && had.Token != "" {
			if from := last.Spec.Sink.Commit; from.URL != n.Spec.Sink.Commit.URL || from.Provider != n.Spec.Sink.Commit.Provider {
				return fielderr.New("spec.commit_status.token", "is required with another url or provider: the stored one belongs to %q", from.URL)
			}
			s.Token = had.Token
		}
		if s.Token == "" {
			err = fielderr.New("spec.commit_status.token", "is required: a token of the forge that may write statuses of commits")
		}
	case SinkEmail:
		if s.Password == "" && had.Password != "" {
			if from, to := last.Spec.Sink.Email, n.Spec.Sink.Email; from.Server != to.Server || from.Username != to.Username {
				return fielderr.New("spec.email.password", "is required with another server or username: the stored one belongs to %q", from.Server)
			}
			s.Password = had.Password
		}
		if s.Password == "" && n.Spec.Sink.Email.Username != "" {
			err = fielderr.New("spec.email.password", "is required with a username")
		}
	}
	n.Spec.RemoveHMACKey = false
	return err
}

// settleURL completes a secret URL, and what people are shown of it.
func settleURL(field string, sink *Sink, s *NotifierSecrets, last Notifier) error {
	s.URL = cmp.Or(s.URL, last.Spec.Secrets.URL)
	if s.URL == "" {
		return fielderr.New(field, "is required: where messages are posted to")
	}
	if u, err := url.Parse(s.URL.Reveal()); err == nil {
		sink.Target = u.Scheme + "://" + u.Host
	}
	return nil
}

// Shown returns where messages go, without anything secret.
func (s Sink) Shown() string {
	switch {
	case s.Commit != nil:
		return s.Commit.Provider + " " + s.Commit.URL
	case s.Email != nil:
		return s.Email.Server
	}
	return s.Target
}

// byField returns the secrets that are set, by the paths of their fields in the document.
func (s NotifierSecrets) byField(sink SinkType) map[string]secret.Text {
	all := map[string]secret.Text{}
	for name, text := range map[string]secret.Text{"url": s.URL, "hmacKey": s.HMACKey, "token": s.Token, "password": s.Password} {
		if text != "" {
			all["spec."+string(sink)+"."+name] = text
		}
	}
	return all
}
