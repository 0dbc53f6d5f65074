// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package find answers questions about many objects: which of them a filter selects, how many there are of
// each phase, and which stand in a window of a listing.
//
// An Index keeps one Row of each object. It follows the fleet by the keys that changed, and reads the
// rows of those when somebody asks next, once for everybody. An idle fleet therefore costs nothing. A
// query reads a copy of the index that does not change, without a lock. Queries that are alike share one
// Result as long as nothing changes: see Views.
//
// The package decides nothing about who may see what: a Viewer brings that.
package find

import (
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/filter"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Phases of clusters. Those of services and repositories are their own.
const (
	Connected    = "CONNECTED"
	Disconnected = "DISCONNECTED"
	// NotJoined is a cluster whose agent was never heard from.
	NotJoined = "NOT_JOINED"
)

// Row is what is known of one object. It never changes.
type Row struct {
	Object catalog.Object
	// Phase is empty where the kind has none, or it is not known.
	Phase   string
	Problem *catalog.Problem
	// Others are problems that the object has beside Problem.
	Others []*catalog.Problem
	// Since is when the problem began, or else the phase. Zero: not known.
	Since time.Time
	// Sources, Report and Synced belong to a service. Report is nil before the agent's first.
	Sources []catalog.Resolution
	Report  *catalog.ServiceReport
	Synced  bool
	// Pin is that of a service; nil: it follows its sources, or a rollout.
	Pin *catalog.Pin
	// LastSeenAt belongs to a cluster.
	LastSeenAt time.Time
}

// service returns the row's service, or nil.
func (r *Row) service() *catalog.Service {
	service, _ := r.Object.(*catalog.Service)
	return service
}

// Fields returns what filters of a kind may name.
func Fields(kind catalog.Kind) filter.Schema {
	var fields filter.Schema
	switch kind { //nolint:exhaustive // the others have what all have
	case catalog.KindService:
		fields = filter.Schema{
			{Name: "phase", Type: filter.Word, Values: []string{"PENDING", "SYNCING", "PROGRESSING", "HEALTHY", "DEGRADED", "FAILED", "PAUSED", "UNKNOWN"}, About: "its phase"},
			{Name: "reason", Type: filter.Word, About: "the reason of its problem, such as APPLY_REJECTED"},
			{Name: "message", About: "the message of its problem"},
			{Name: "since", Type: filter.Age, About: "how long the problem lasts, or the phase"},
			{Name: "cluster", About: "its cluster: NAME or PROJECT/NAME"},
			{Name: "cluster.label.", About: "a label of its cluster"},
			{Name: "namespace", About: "the namespace of its objects"},
			{Name: "repository", About: "a repository of its sources: NAME or PROJECT/NAME"},
			{Name: "path", About: "a folder of its sources"},
			{Name: "ref", About: "what it follows: a branch, tag, commit or range of versions"},
			{Name: "commit", Type: filter.Hash, About: "a commit that it has, or is to have"},
			{Name: "version", About: "a version that it has, or is to have"},
			{Name: "synced", Type: filter.Word, Values: truths(), About: "all that is desired is applied"},
			{Name: "drifted", Type: filter.Word, Values: truths(), About: "others have changed its objects"},
			{Name: "paused", Type: filter.Word, Values: truths(), About: "it is paused"},
			{Name: "pinned", Type: filter.Word, Values: truths(), About: "leat rollback has pinned it to a revision"},
		}
	case catalog.KindGlobalService, catalog.KindRolloutPolicy, catalog.KindFleetSource, catalog.KindConfigBackend, catalog.KindNotifier:
		fields = filter.Schema{
			{Name: "reason", Type: filter.Word, About: "the reason of its problem, such as REMOVAL_HELD"},
			{Name: "message", About: "the message of its problem"},
			{Name: "since", Type: filter.Age, About: "how long the problem lasts"},
		}
	case catalog.KindCluster:
		fields = filter.Schema{
			{Name: "phase", Type: filter.Word, Values: []string{Connected, Disconnected, NotJoined}, About: "whether its agent is connected"},
			{Name: "since", Type: filter.Age, About: "how long its agent is gone"},
			{Name: "cluster.label.", About: "the same as label.KEY"},
			{Name: "version", About: "the version of its agent"},
			{Name: "kubernetes", About: "the version of its API server"},
		}
	case catalog.KindRepository:
		fields = filter.Schema{
			{Name: "phase", Type: filter.Word, Values: []string{"CLONING", "READY", "STALE", "FAILED", "SUSPENDED", "UNKNOWN"}, About: "its phase"},
			{Name: "reason", Type: filter.Word, About: "the reason of its problem"},
			{Name: "message", About: "the message of its problem"},
			{Name: "since", Type: filter.Age, About: "how long the problem lasts"},
			{Name: "url", About: "its URL"},
		}
	}
	all := filter.Schema{{Name: "name", About: "its name"}}
	if kind.InProject() {
		all = append(all, filter.Field{Name: "project", About: "its project"})
	}
	all = append(all, fields...)
	return append(all,
		filter.Field{Name: "label.", About: "a label"},
		filter.Field{Name: "age", Type: filter.Age, About: "how long it exists"},
		filter.Field{Name: filter.FieldText, About: "its name, project, cluster, namespace, repositories and message"},
	)
}

func truths() []string { return []string{"true", "false"} }

// subject is a row as filters see it. One subject serves for many rows, one after the other.
type subject struct {
	*Row
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
	switch o := s.Object.(type) {
	case *catalog.Service:
		return s.anyOfService(o, field, key, match)
	case *catalog.Cluster:
		switch field {
		case "cluster.label.":
			return matchLabel(o.Labels, key, match)
		case "version":
			return match(o.Agent.Report.AgentVersion)
		case "kubernetes":
			return match(o.Agent.Report.KubernetesVersion)
		}
	case *catalog.Repository:
		return field == "url" && match(o.Spec.URL)
	}
	return false
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

func (s *subject) anyOfService(o *catalog.Service, field, key string, match func(string) bool) bool {
	switch field {
	case "cluster":
		return s.matchPath(o.Spec.Cluster, match)
	case "cluster.label.":
		return matchLabel(s.labelsOf(o.Spec.Cluster), key, match)
	case "namespace":
		return match(o.Spec.Wanted().NamespaceOrDefault())
	case "synced":
		return match(truth(s.Synced))
	case "paused":
		return match(truth(o.Spec.Wanted().Paused))
	case "pinned":
		return match(truth(s.Pin != nil))
	case "drifted":
		return match(truth(s.Report != nil && len(s.Report.Drift) > 0))
	case "commit":
		return s.anyContent(match, func(snapshot *catalog.Snapshot) string { return snapshot.Commit }, func(r *catalog.ServiceReport) []string { return r.AppliedCommits })
	case "version":
		return s.anyContent(match, func(snapshot *catalog.Snapshot) string { return snapshot.Version }, func(r *catalog.ServiceReport) []string { return r.AppliedVersions })
	}
	for i := range o.Spec.Sources {
		source := &o.Spec.Sources[i]
		switch field {
		case "repository":
			if s.matchPath(source.Repository, match) {
				return true
			}
		case "path":
			if match(source.Path) {
				return true
			}
		case "ref":
			if match(source.Ref.Value) {
				return true
			}
		}
	}
	return false
}

// anyContent looks at what is desired and at what is applied.
func (s *subject) anyContent(match func(string) bool, of func(*catalog.Snapshot) string, applied func(*catalog.ServiceReport) []string) bool {
	for _, source := range s.Sources {
		if source.Snapshot != nil && of(source.Snapshot) != "" && match(of(source.Snapshot)) {
			return true
		}
	}
	if s.Report == nil {
		return false
	}
	for _, text := range applied(s.Report) {
		if text != "" && match(text) {
			return true
		}
	}
	return false
}

// anyText looks at what people would look for.
func (s *subject) anyText(match func(string) bool) bool {
	if match(objectname.Display(s.Object.Meta().Name)) || s.anyProblem(func(p *catalog.Problem) bool { return match(p.Message) }) {
		return true
	}
	service := s.service()
	if service == nil {
		repository, ok := s.Object.(*catalog.Repository)
		return ok && match(repository.Spec.URL)
	}
	if match(objectname.Display(service.Spec.Cluster)) || match(service.Spec.Wanted().NamespaceOrDefault()) {
		return true
	}
	for i := range service.Spec.Sources {
		if match(objectname.Display(service.Spec.Sources[i].Repository)) {
			return true
		}
	}
	return false
}

func truth(is bool) string {
	if is {
		return "true"
	}
	return "false"
}

// isGroupable reports whether objects can be counted by a field.
func isGroupable(field filter.Field) bool {
	return field.Type != filter.Age && field.Name != filter.FieldText && !strings.HasPrefix(field.Name, "message")
}
