// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// ids makes ids that differ.
func ids() func() string {
	n := 0
	return func() string { n++; return fmt.Sprint("id-", n) }
}

func notifier(change ...func(*catalog.NotifierSpec)) *catalog.Notifier {
	n := &catalog.Notifier{Metadata: catalog.Metadata{Name: "shop.ops", UID: "ops", CreatedAt: start}, Spec: catalog.NotifierSpec{
		Sink: catalog.Sink{Type: catalog.SinkWebhook}, Events: notice.Kinds(),
	}}
	for _, c := range change {
		c(&n.Spec)
	}
	return n
}

func service(class notify.Class) notify.Seen {
	return notify.Seen{
		ID: "Service/1", Kind: catalog.KindService, Name: "web", Project: "shop", Class: class, CreatedAt: start.Add(-time.Hour),
		Labels: map[string]string{"stage": "prod"}, LabelProject: "shop", Commits: []notify.Commit{{Repository: "shop.app", ID: "c1"}},
		Event: notice.Event{Project: "shop", Service: "shop/web", Cluster: "berlin", Reason: "R", Commit: "c1"},
	}
}

func kindsOf(told []notify.Told) string {
	var kinds []string
	for _, t := range told {
		kinds = append(kinds, strings.TrimPrefix(string(t.Event.Kind), "service."))
	}
	return strings.Join(kinds, " ")
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last notify.State
		seen notify.Seen
		want string
	}{
		"nothing changed":      {notify.State{Class: notify.Healthy}, service(notify.Healthy), ""},
		"cannot tell":          {notify.State{Class: notify.Healthy}, service(notify.Unknown), ""},
		"failed":               {notify.State{Class: notify.Healthy}, service(notify.Failed), "failed"},
		"degraded":             {notify.State{Class: notify.Healthy}, service(notify.Degraded), "degraded"},
		"worse":                {notify.State{Class: notify.Degraded, Bad: true}, service(notify.Failed), "failed"},
		"recovered":            {notify.State{Class: notify.Failed, Bad: true}, service(notify.Healthy), "healthy recovered"},
		"recovered by a step":  {notify.State{Class: notify.Pending, Bad: true}, service(notify.Healthy), "healthy recovered"},
		"healthy after change": {notify.State{Class: notify.Pending}, service(notify.Healthy), "healthy"},
		"pending":              {notify.State{Class: notify.Healthy}, service(notify.Pending), "pending"},
		"paused":               {notify.State{Class: notify.Healthy}, service(notify.Paused), ""},
		"new":                  {notify.State{}, service(notify.Failed), "failed"},
	} {
		next, told := notify.Step(tc.last, tc.seen, start, []*catalog.Notifier{notifier()}, ids())
		if got := kindsOf(told); got != tc.want {
			t.Errorf("%s: told %q, want %q", name, got, tc.want)
		}
		if _, again := notify.Step(next, tc.seen, start, []*catalog.Notifier{notifier()}, ids()); len(again) > 0 {
			t.Errorf("%s: told %q twice", name, kindsOf(again))
		}
	}
	applied := service(notify.Healthy)
	applied.Applied = "c2"
	next, told := notify.Step(notify.State{Class: notify.Healthy, Applied: "c1"}, applied, start, []*catalog.Notifier{notifier()}, ids())
	if kindsOf(told) != "applied" || next.Applied != "c2" {
		t.Errorf("another commit: got %q, %v", kindsOf(told), next)
	}
}

// TestFailuresMustLast holds failures back for a notifier that wants them to last.
func TestFailuresMustLast(t *testing.T) {
	t.Parallel()
	patient := []*catalog.Notifier{notifier(func(s *catalog.NotifierSpec) { s.After = time.Minute })}
	type look struct {
		after time.Duration
		class notify.Class
		want  string
	}
	for name, looks := range map[string][]look{
		"lasts":             {{0, notify.Failed, ""}, {59 * time.Second, notify.Failed, ""}, {time.Minute, notify.Failed, "failed"}, {2 * time.Minute, notify.Failed, ""}, {3 * time.Minute, notify.Healthy, "healthy recovered"}},
		"recovers":          {{0, notify.Failed, ""}, {30 * time.Second, notify.Healthy, "healthy"}, {time.Hour, notify.Healthy, ""}},
		"becomes worse":     {{0, notify.Degraded, ""}, {30 * time.Second, notify.Failed, ""}, {time.Minute, notify.Failed, "failed"}},
		"is tried meantime": {{0, notify.Failed, ""}, {30 * time.Second, notify.Pending, "pending"}, {time.Minute, notify.Failed, "failed"}},
	} {
		state := notify.State{Class: notify.Healthy}
		for _, l := range looks {
			var told []notify.Told
			state, told = notify.Step(state, service(l.class), start.Add(l.after), patient, ids())
			if got := kindsOf(told); got != l.want {
				t.Errorf("%s, after %s: told %q, want %q", name, l.after, got, l.want)
			}
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	foreign, repository, elsewhere := service(notify.Failed), service(notify.Failed), service(notify.Failed)
	foreign.Project = "other"
	repository.Kind, repository.Project, repository.Readers = catalog.KindRepository, "other", []string{"shop"}
	elsewhere.LabelProject = "other"
	labels := func(s *catalog.NotifierSpec) { s.ClusterLabels = map[string]string{"stage": "prod"} }
	for name, tc := range map[string]struct {
		change func(*catalog.NotifierSpec)
		seen   notify.Seen
		want   bool
	}{
		"own":                            {nil, service(notify.Failed), true},
		"of another project":             {nil, foreign, false},
		"all projects":                   {func(s *catalog.NotifierSpec) { s.AllProjects = true }, foreign, true},
		"another project by name":        {func(s *catalog.NotifierSpec) { s.AllProjects, s.Projects = true, []string{"shop"} }, foreign, false},
		"repository that is read":        {nil, repository, true},
		"service by name":                {func(s *catalog.NotifierSpec) { s.Services = []string{"api", "w*"} }, service(notify.Failed), true},
		"another service by name":        {func(s *catalog.NotifierSpec) { s.Services = []string{"api"} }, service(notify.Failed), false},
		"repository where services are":  {func(s *catalog.NotifierSpec) { s.Services = []string{"*"} }, repository, false},
		"labels":                         {labels, service(notify.Failed), true},
		"labels of another's cluster":    {labels, elsewhere, false},
		"other labels":                   {func(s *catalog.NotifierSpec) { s.ClusterLabels = map[string]string{"stage": "dev"} }, service(notify.Failed), false},
		"commits of another repository":  {func(s *catalog.NotifierSpec) { s.Sink.Commit = &catalog.CommitSink{Repositories: []string{"x"}} }, service(notify.Failed), false},
		"commits of the same repository": {func(s *catalog.NotifierSpec) { s.Sink.Commit = &catalog.CommitSink{Repositories: []string{"shop.app"}} }, service(notify.Failed), true},
	} {
		n := notifier()
		if tc.change != nil {
			tc.change(&n.Spec)
		}
		if got := notify.Covers(n, tc.seen); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

// TestManyEventsAreFewMessages: ten thousand services that fail for one reason are one message, and
// for as many reasons, few.
func TestManyEventsAreFewMessages(t *testing.T) {
	t.Parallel()
	const number = 10_000
	for _, causes := range []int{1, number} {
		told := make([]notify.Told, number)
		for i := range told {
			told[i] = notify.Told{Notifier: notifier(), Event: notice.Event{ID: fmt.Sprint(i), Kind: notice.ServiceFailed, Reason: fmt.Sprint(i % causes)}}
		}
		added := notify.Gather(told, start, ids())
		written, lost := notify.Place(nil, added, 0)
		events := 0
		for _, item := range written {
			if events += item.Message.Count; len(item.Message.Events) > notice.MaxListed {
				t.Errorf("a message lists %d events", len(item.Message.Events))
			}
		}
		if events != number || lost != 0 || len(written) > 40 || causes == 1 && len(written) != 1 {
			t.Errorf("%d causes: got %d messages with %d events, %d lost", causes, len(written), events, lost)
		}
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	item := func(cause string, count int) notify.Item {
		return notify.Item{NotifierUID: "ops", Cause: cause, Message: notice.Message{ID: cause, Kind: notice.ServiceFailed, Count: count}}
	}
	written, lost := notify.Place([]notify.Item{item("a", 1), item("b", 1)}, []notify.Item{item("b", 2), item("c", 3)}, 2)
	var got []string
	for _, i := range written {
		got = append(got, fmt.Sprint(i.Cause, i.Message.Count))
	}
	if diff := cmp.Diff([]string{"b3", "c3"}, got); diff != "" || lost != 0 {
		t.Errorf("lost %d (-want +got):\n%s", lost, diff)
	}
	if written, lost := notify.Place([]notify.Item{item("a", 1)}, []notify.Item{item("b", 5), item("a", 1)}, notify.MaxWaiting); lost != 5 || len(written) != 1 || written[0].Cause != "a" {
		t.Errorf("a full outbox: got %v, %d lost", written, lost)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	item := notify.Item{CreatedAt: start}
	for name, tc := range map[string]struct {
		err      error
		failures int
		at       time.Duration
		want     string
	}{
		"taken":          {nil, 3, 0, "sent"},
		"not reached":    {errors.New("x"), 0, 0, "5s"},
		"again":          {errors.New("x"), 2, 0, "20s"},
		"often":          {errors.New("x"), 1000, 0, "1m0s"},
		"for a day":      {errors.New("x"), 1000, 24 * time.Hour, "dead"},
		"never":          {&notify.RefusedError{Permanent: true}, 0, 0, "dead"},
		"later":          {&notify.RefusedError{RetryAfter: 10 * time.Minute}, 0, 0, "10m0s"},
		"much later":     {&notify.RefusedError{RetryAfter: 1000 * time.Hour}, 0, 0, "1h0m0s"},
		"sooner than we": {&notify.RefusedError{RetryAfter: time.Second}, 9, 0, "1m0s"},
	} {
		v := notify.Judge(item, tc.err, tc.failures, start.Add(tc.at))
		got := v.Pause.String()
		switch {
		case v.Sent:
			got = "sent"
		case v.Dead:
			got = "dead"
		case !v.Item.NextAt.Equal(start.Add(tc.at).Add(v.Pause)):
			t.Errorf("%s: next at %s after a pause of %s", name, v.Item.NextAt, v.Pause)
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// TestErrorsStayText cuts a long error off between characters, since it is shown as text.
func TestErrorsStayText(t *testing.T) {
	t.Parallel()
	for shift := range 4 {
		v := notify.Judge(notify.Item{CreatedAt: start}, errors.New(strings.Repeat("x", shift)+strings.Repeat("€", 1000)), 0, start)
		if !utf8.ValidString(v.Error) || len(v.Error) < 500 || v.Item.LastError != v.Error {
			t.Errorf("got %q", v.Error)
		}
	}
}

// TestTextsOfExamples makes a text of every kind.
func TestTextsOfExamples(t *testing.T) {
	t.Parallel()
	for _, kind := range append(notice.Kinds(), notice.Test) {
		m := notice.Example(kind, "id", start)
		text, err := m.Text(t.Context(), "")
		if err != nil || !strings.HasPrefix(text, "Leat: ") || strings.Contains(text, "  ") {
			t.Errorf("%s: got %q, %v", kind, text, err)
		}
		text, err = m.Text(t.Context(), "string(self.count) + self.events[0].reason")
		if err != nil || text != "1EXAMPLE" {
			t.Errorf("%s: got %q, %v", kind, text, err)
		}
	}
	if text, err := notice.Example(notice.Test, "id", start).Text(t.Context(), "self.nothing"); err == nil || !strings.HasPrefix(text, "Leat: ") {
		t.Errorf("a broken expression: got %q, %v", text, err)
	}
}
