// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package find answers questions about many objects: which of them a filter selects, how many there
// are of each phase, and which are in a window of a listing.
//
// An Index keeps one Row of each object. It follows the fleet by the keys that changed, and reads
// their rows at the next query, once for all callers. An idle fleet therefore costs nothing. A
// query reads a copy of the index that does not change, without a lock. Queries that are alike
// share one Result as long as nothing changes: see Views.
//
// The package decides nothing about who may see what: a Viewer brings that.
package find

import (
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/filter"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Phases of clusters. Services and repositories have phases of their own.
const (
	Connected    = "CONNECTED"
	Disconnected = "DISCONNECTED"
	// NotJoined is a cluster whose agent was never heard from.
	NotJoined = "NOT_JOINED"
)

// Row describes one object. It never changes.
type Row struct {
	Object catalog.Object
	// Phase is empty where the kind has none, or it is not known.
	Phase   string
	Problem *catalog.Problem
	// Others are problems that the object has beside Problem.
	Others []*catalog.Problem
	// Since is when the problem began, or else the phase. Zero: not known.
	Since time.Time
	// Sources, Report, Durations and Synced belong to a service. Report is nil before the agent's first. Its
	// times may be missing, because services that differ in those alone share a report.
	Sources   []catalog.Resolution
	Report    *catalog.ServiceReport
	Durations Durations
	Synced    bool
	// Pin is the pin of a service; nil: it follows its sources, or a rollout.
	Pin *catalog.Pin
	// LastSeenAt belongs to a cluster.
	LastSeenAt time.Time
}

// Durations are the times of a service's report that the arrival of a commit is measured by.
type Durations struct {
	// Way is how long the plan took to arrive at the agent. That is from the hub's clock to the agent's, which
	// may be behind.
	Way        time.Duration
	IsWayKnown bool
	// Applying and Healthy follow it. Zero: not known.
	Applying, Healthy time.Duration
}

// DurationsOf returns the durations of a report, which may be nil.
func DurationsOf(r *catalog.ServiceReport) Durations {
	if r == nil {
		return Durations{}
	}
	took := Durations{Applying: r.ApplyDuration, Healthy: r.Timings.Healthy}
	if took.IsWayKnown = !r.PlannedAt.IsZero() && !r.Timings.ArrivedAt.IsZero(); took.IsWayKnown {
		took.Way = max(0, r.Timings.ArrivedAt.Sub(r.PlannedAt))
	}
	return took
}

// service returns the row's service, or nil.
func (r *Row) service() *catalog.Service {
	service, _ := r.Object.(*catalog.Service)
	return service
}

// Fields returns what filters of a kind may name.
func Fields(kind catalog.Kind) filter.Schema {
	all := filter.Schema{{Name: "name", About: "its name"}}
	if kind.InProject() {
		all = append(all, filter.Field{Name: "project", About: "its project"})
	}
	of, _ := kindOf(kind)
	all = append(all, of.fields...)
	return append(all,
		filter.Field{Name: "label.", About: "a label"},
		filter.Field{Name: "age", Type: filter.Age, About: "how long it exists"},
		filter.Field{Name: filter.FieldText, About: "its name, project, cluster, namespace, repositories and message"},
	)
}

// subject is a row as filters see it. One subject serves for many rows, one after the other.
type subject struct {
	*Row
	// kind is the kind of the object.
	kind kind
	// labelsOf returns the labels of a cluster that the viewer may see.
	labelsOf func(cluster string) map[string]string
	// isCounted is true if every value is one to count, so each is named once.
	isCounted bool
}

// At implements filter.Subject.
func (s *subject) At(field string) time.Time {
	if field == "age" {
		return s.Object.Meta().CreatedAt
	}
	return s.Since
}

// Any implements filter.Subject.
func (s *subject) Any(field, key string, match func(string) bool) bool {
	switch field {
	case "name":
		_, name := objectname.Split(s.Object.Meta().Name)
		return match(name)
	case "project":
		return match(objectname.Project(s.Object.Meta().Name))
	case "label.":
		return matchLabel(s.Object.Meta().Labels, key, match)
	case "phase":
		if s.Phase == "" {
			return match("UNKNOWN")
		}
		return match(s.Phase)
	case "reason":
		return s.anyProblem(func(p *catalog.Problem) bool { return match(p.Reason.String()) })
	case "message":
		return s.anyProblem(func(p *catalog.Problem) bool { return match(p.Message) })
	case filter.FieldText:
		return s.anyText(match)
	}
	return s.kind.any != nil && s.kind.any(s, field, key, match)
}

func (s *subject) anyProblem(match func(*catalog.Problem) bool) bool {
	return s.Problem != nil && match(s.Problem) || slices.ContainsFunc(s.Others, match)
}

// matchPath compares both names of an object of the project default: people write it with and without the
// project, and tables of a project show it with it.
func (s *subject) matchPath(path string, match func(string) bool) bool {
	if isMatch := match(objectname.Display(path)); isMatch || s.isCounted {
		return isMatch
	}
	project, name := objectname.Split(path)
	return project == objectname.Default && match(project+"/"+name)
}

func matchLabel(labels map[string]string, key string, match func(string) bool) bool {
	value, ok := labels[key]
	return ok && match(value)
}

// anyText reads the texts that people would search.
func (s *subject) anyText(match func(string) bool) bool {
	if match(objectname.Display(s.Object.Meta().Name)) || s.anyProblem(func(p *catalog.Problem) bool { return match(p.Message) }) {
		return true
	}
	return s.kind.text != nil && s.kind.text(s, match)
}

// isGroupable reports whether objects can be counted by a field.
func isGroupable(field filter.Field) bool {
	return field.Type != filter.Age && field.Name != filter.FieldText && !strings.HasPrefix(field.Name, "message")
}
