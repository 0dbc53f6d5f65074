// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package notice holds what notifiers tell other systems: kinds of events, events, and messages of
// events that belong together. Everything here is a value, and its functions are pure.
package notice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/expression"
)

// Kind names what happened. Receivers see it, so its values are a contract.
type Kind string

// The kinds.
const (
	ServiceFailed   Kind = "service.failed"
	ServiceDegraded Kind = "service.degraded"
	// ServiceHealthy is every change to health, ServiceRecovered only one after a failure.
	ServiceHealthy   Kind = "service.healthy"
	ServiceRecovered Kind = "service.recovered"
	// ServicePending means that a service waits for content, or is being applied.
	ServicePending Kind = "service.pending"
	// ServiceApplied means that a service has applied other commits than before.
	ServiceApplied      Kind = "service.applied"
	ClusterConnected    Kind = "cluster.connected"
	ClusterDisconnected Kind = "cluster.disconnected"
	RepositoryFailing   Kind = "repository.failing"
	RepositoryRecovered Kind = "repository.recovered"
	// An object that services depend on stopped, waits for a person, or continues.
	RolloutStopped         Kind = "rollout.stopped"
	RolloutWaiting         Kind = "rollout.waiting"
	RolloutRecovered       Kind = "rollout.recovered"
	FleetSourceFailing     Kind = "fleetsource.failing"
	FleetSourceWaiting     Kind = "fleetsource.waiting"
	FleetSourceRecovered   Kind = "fleetsource.recovered"
	ImagePolicyFailing     Kind = "imagepolicy.failing"
	ImagePolicyRecovered   Kind = "imagepolicy.recovered"
	GlobalServiceFailing   Kind = "globalservice.failing"
	GlobalServiceWaiting   Kind = "globalservice.waiting"
	GlobalServiceRecovered Kind = "globalservice.recovered"
	ConfigBackendFailing   Kind = "configbackend.failing"
	ConfigBackendRecovered Kind = "configbackend.recovered"
	// Other notifiers are told of one that has given messages up.
	NotifierFailing   Kind = "notifier.failing"
	NotifierRecovered Kind = "notifier.recovered"
	// A person asks for access, and the request ends: it is approved, denied or withdrawn, or it lapses.
	AccessRequestOpened Kind = "accessrequest.opened"
	AccessRequestEnded  Kind = "accessrequest.ended"
	// Test is an example that a person has asked for. No filter names it.
	Test Kind = "test"
)

// Kinds returns the kinds that a notifier can subscribe to.
func Kinds() []Kind {
	return []Kind{
		ServiceFailed, ServiceDegraded, ServiceHealthy, ServiceRecovered, ServicePending, ServiceApplied,
		ClusterConnected, ClusterDisconnected, RepositoryFailing, RepositoryRecovered,
		RolloutStopped, RolloutWaiting, RolloutRecovered, FleetSourceFailing, FleetSourceWaiting, FleetSourceRecovered,
		ImagePolicyFailing, ImagePolicyRecovered,
		GlobalServiceFailing, GlobalServiceWaiting, GlobalServiceRecovered, ConfigBackendFailing, ConfigBackendRecovered,
		NotifierFailing, NotifierRecovered, AccessRequestOpened, AccessRequestEnded,
	}
}

// DefaultKinds returns the kinds that a notifier is sent if it names none. Requests for access hold what people write to
// their administrators, so a notifier has to name their kinds.
func DefaultKinds() []Kind {
	return []Kind{
		ServiceFailed, ServiceDegraded, ServiceRecovered, ClusterConnected, ClusterDisconnected, RepositoryFailing, RepositoryRecovered,
		RolloutStopped, RolloutWaiting, RolloutRecovered, FleetSourceFailing, FleetSourceWaiting, FleetSourceRecovered,
		ImagePolicyFailing, ImagePolicyRecovered,
		GlobalServiceFailing, GlobalServiceWaiting, GlobalServiceRecovered, ConfigBackendFailing, ConfigBackendRecovered,
		NotifierFailing, NotifierRecovered,
	}
}

// CommitKinds returns the kinds that change the status of a commit.
func CommitKinds() []Kind {
	return []Kind{ServiceFailed, ServiceDegraded, ServiceHealthy, ServicePending, ServiceApplied}
}

const (
	// MaxListed bounds the events that a message lists; it counts the others.
	MaxListed = 20
	// maxWord bounds a reason, and maxProse what a person wrote, in an event.
	maxWord, maxProse = 256, 1024
	// MaxText bounds the text of a message, in bytes.
	MaxText = 4 << 10
	// textTimeout bounds the evaluation of an expression for one message.
	textTimeout = time.Second
	// maxTextCost bounds its cost in CEL's own unit. A text that names every event of a full message
	// costs about a thousand. A notifier may send 600 messages a minute, and the leader sends the
	// messages of all projects, so the bound of other expressions would be more than a core for each
	// notifier.
	maxTextCost = 10_000
)

// Event is one thing that happened to one object. Names are as people write them from the project
// default. Its JSON is sent to receivers, and stored.
type Event struct {
	// ID is never reused: a receiver that gets an event twice can drop one.
	ID   string    `json:"id"`
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`
	// Project is the object's.
	Project string `json:"project"`
	// Service, Cluster and Repository are names. A service's event also names its cluster.
	Service    string `json:"service,omitempty"`
	Cluster    string `json:"cluster,omitempty"`
	Repository string `json:"repository,omitempty"`
	// Named is the name of an object of another kind, which the event's kind tells.
	Named string `json:"object,omitempty"`
	// Commit and Version come from the service's first source.
	Commit  string `json:"commit,omitempty"`
	Version string `json:"version,omitempty"`
	// Reason is a word, and Message a sentence about the problem.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Object returns the name of what the event is about.
func (e Event) Object() string {
	switch {
	case e.Service != "":
		return e.Service
	case e.Repository != "":
		return e.Repository
	case e.Named != "":
		return e.Named
	}
	return e.Cluster
}

// Bounded returns the event with texts that are no longer than receivers expect, in one line each.
func (e Event) Bounded() Event {
	e.Reason, e.Message = cut(e.Reason, maxWord), cut(e.Message, maxProse)
	e.Commit, e.Version = cut(e.Commit, maxWord), cut(e.Version, maxWord)
	return e
}

// cut returns at most limit bytes of a text, in one printable line.
func cut(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return shorten(text, limit)
}

// shorten returns at most limit bytes of a text, and ends no rune in its middle.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[:limit-len("…")]
	for len(text) > 0 && !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// Message is one message of a notifier: events of one cause. Its JSON is stored.
type Message struct {
	// ID is the same at every attempt to send it.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Cause names what the events have in common, for people. Empty: various causes.
	Cause string `json:"cause,omitempty"`
	// Count is how many events there are. Events lists the first of them.
	Count  int     `json:"count"`
	Events []Event `json:"events"`
	// LastTime is when the last event happened.
	LastTime time.Time `json:"lastTime"`
}

// Add returns the message with one event more. It shares nothing with the message before.
func (m Message) Add(e Event) Message {
	m.Count++
	m.LastTime = e.Time
	if len(m.Events) < MaxListed {
		m.Events = append(slices.Clone(m.Events), e)
	}
	return m
}

// Merge returns the message with all events of another one, which came later.
func (m Message) Merge(later Message) Message {
	m.Count += later.Count
	m.LastTime = later.LastTime
	room := min(MaxListed-len(m.Events), len(later.Events))
	m.Events = append(slices.Clone(m.Events), later.Events[:max(room, 0)]...)
	return m
}

// Time returns when the first event happened.
func (m Message) Time() time.Time {
	if len(m.Events) == 0 {
		return m.LastTime
	}
	return m.Events[0].Time
}

// Fields returns the message as expressions see it.
func (m Message) Fields() map[string]any {
	events := make([]any, len(m.Events))
	for i, e := range m.Events {
		events[i] = map[string]any{
			"kind": string(e.Kind), "time": e.Time.UTC().Format(time.RFC3339), "project": e.Project, "service": e.Service, "cluster": e.Cluster,
			"repository": e.Repository, "object": e.Named, "commit": e.Commit, "version": e.Version, "reason": e.Reason, "message": e.Message,
		}
	}
	return map[string]any{
		"id": m.ID, "kind": string(m.Kind), "cause": m.Cause, "count": int64(m.Count), "time": m.Time().UTC().Format(time.RFC3339), "events": events,
	}
}

// Text returns the text of a message: what the expression makes of it, or the default text for an
// empty one. An expression that fails on a message gives the default text and the error.
func (m Message) Text(ctx context.Context, source string) (string, error) {
	if source == "" {
		return shorten(m.defaultText(), MaxText), nil
	}
	compiled, err := expression.CompileWithin(source, expression.Text, maxTextCost)
	if err != nil {
		return shorten(m.defaultText(), MaxText), err
	}
	ctx, cancel := context.WithTimeout(ctx, textTimeout)
	defer cancel()
	text, err := compiled.Text(ctx, m.Fields())
	if err != nil {
		return shorten(m.defaultText(), MaxText), err
	}
	return shorten(strings.ToValidUTF8(text, ""), MaxText), nil
}

// Example returns a message of a kind, with every field that such a message has: expressions are
// tried on it before they are stored, and a test sends it.
func Example(kind Kind, id string, at time.Time) Message {
	e := Event{
		ID: id, Kind: kind, Time: at, Project: "default", Service: "example", Cluster: "example", Commit: strings.Repeat("0", 40), Version: "1.0.0",
		Reason: "EXAMPLE", Message: "this is an example",
	}
	switch kind { //nolint:exhaustive // the others are about services
	case ClusterConnected, ClusterDisconnected:
		e.Service, e.Commit, e.Version = "", "", ""
	case RepositoryFailing, RepositoryRecovered:
		e.Service, e.Cluster, e.Repository, e.Commit, e.Version = "", "", "example", "", ""
	case RolloutStopped, RolloutWaiting, RolloutRecovered, FleetSourceFailing, FleetSourceWaiting, FleetSourceRecovered,
		ImagePolicyFailing, ImagePolicyRecovered,
		GlobalServiceFailing, GlobalServiceWaiting, GlobalServiceRecovered, ConfigBackendFailing, ConfigBackendRecovered,
		NotifierFailing, NotifierRecovered, AccessRequestOpened, AccessRequestEnded:
		e.Service, e.Cluster, e.Named, e.Commit, e.Version = "", "", "example", "", ""
	}
	return Message{ID: id, Kind: kind, Cause: "example", LastTime: at}.Add(e)
}

// said are the texts of a kind for one object, and for several.
var said = map[Kind][3]string{
	ServiceFailed: {"service", "services", "failed"}, ServiceDegraded: {"service", "services", "became degraded"},
	ServiceHealthy: {"service", "services", "became healthy"}, ServiceRecovered: {"service", "services", "recovered"},
	ServicePending: {"service", "services", "began to change"}, ServiceApplied: {"service", "services", "applied another commit"},
	ClusterConnected: {"cluster", "clusters", "connected"}, ClusterDisconnected: {"cluster", "clusters", "disconnected"},
	RepositoryFailing: {"repository", "repositories", "cannot be fetched"}, RepositoryRecovered: {"repository", "repositories", "can be fetched again"},
	RolloutStopped: {"rollout policy", "rollout policies", "stopped"}, RolloutWaiting: {"rollout policy", "rollout policies", "waits for a person"},
	RolloutRecovered:   {"rollout policy", "rollout policies", "goes on"},
	FleetSourceFailing: {"fleet source", "fleet sources", "cannot apply everything"}, FleetSourceWaiting: {"fleet source", "fleet sources", "waits for a person"},
	FleetSourceRecovered: {"fleet source", "fleet sources", "applies everything again"},
	ImagePolicyFailing:   {"image policy", "image policies", "cannot write what it selects"},
	ImagePolicyRecovered: {"image policy", "image policies", "writes what it selects again"},
	GlobalServiceFailing: {"global service", "global services", "cannot be derived everywhere"}, GlobalServiceWaiting: {"global service", "global services", "waits for a person"},
	GlobalServiceRecovered: {"global service", "global services", "is derived again"},
	ConfigBackendFailing:   {"back end", "back ends", "cannot be read"}, ConfigBackendRecovered: {"back end", "back ends", "can be read again"},
	AccessRequestOpened: {"access request", "access requests", "waits for a decision"}, AccessRequestEnded: {"access request", "access requests", "has ended"},
	NotifierFailing: {"notifier", "notifiers", "has given messages up"}, NotifierRecovered: {"notifier", "notifiers", "has no message left that it gave up"},
}

// maxNamed bounds the objects that a default text names.
const maxNamed = 5

func (m Message) defaultText() string {
	if m.Kind == Test {
		return "Leat: this is a test. The notifier works."
	}
	words := said[m.Kind]
	if m.Count == 1 && len(m.Events) == 1 {
		return "Leat: " + m.Events[0].sentence(words)
	}
	var names []string
	for _, e := range m.Events {
		if name := e.Object(); len(names) < maxNamed && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	text := fmt.Sprintf("Leat: %d %s %s: %s", m.Count, words[1], words[2], strings.Join(names, ", "))
	if m.Count > len(names) {
		text += " …"
	}
	if m.Cause != "" {
		text += " (" + m.Cause + ")"
	}
	return text
}

func (e Event) sentence(words [3]string) string {
	text := words[0] + " " + e.Object()
	if e.Service != "" {
		text += " in cluster " + e.Cluster
	}
	text += " " + words[2]
	if e.Commit != "" {
		text += " at " + e.Commit[:min(len(e.Commit), 12)]
	}
	if about := strings.Trim(e.Reason+": "+e.Message, ": "); about != "" {
		text += ": " + about
	}
	return text
}
