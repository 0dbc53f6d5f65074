// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find

import (
	"slices"

	"github.com/leatdev/leat/internal/contract/filter"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// The orders of rows.
const (
	orderName     = "name"
	orderSince    = "since"
	orderSeverity = "severity"
	orderAge      = "age"
	orderCluster  = "cluster"
)

// kind holds the fields of a kind's objects besides the fields of all objects.
type kind struct {
	// fields are the names in filters, and orders the orders of rows.
	fields filter.Schema
	orders []string
	// any reads a field as filter.Subject does, and text the texts that people would search. Nil:
	// there is nothing.
	any  func(s *subject, field, key string, match func(string) bool) bool
	text func(s *subject, match func(string) bool) bool
}

// kinds are those with fields of their own.
var kinds = map[catalog.Kind]kind{
	catalog.KindService:    {fields: serviceFields, orders: []string{orderSince, orderSeverity, orderAge, orderCluster}, any: anyOfService, text: textOfService},
	catalog.KindCluster:    {fields: clusterFields, orders: stateOrders, any: anyOfCluster},
	catalog.KindRepository: {fields: repositoryFields, orders: stateOrders, any: anyOfRepository, text: textOfRepository},
}

// kindOf returns what objects of a kind have. exists is false for what is not a kind of objects.
func kindOf(named catalog.Kind) (of kind, exists bool) {
	if own, isOwn := kinds[named]; isOwn {
		return own, true
	}
	switch {
	case !slices.Contains(catalog.Kinds(), named):
		return kind{}, false
	case named.HasProblems():
		return standing, true
	}
	return plain, true
}

// standing are kinds whose objects may have a problem, and plain the kinds without a state.
var (
	standing = kind{fields: problemFields, orders: []string{orderAge}}
	plain    = kind{orders: []string{orderAge}}
)

var stateOrders = []string{orderSince, orderSeverity, orderAge}

var serviceFields = filter.Schema{
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
	{Name: "applied", Type: filter.Hash, About: "a commit that it has"},
	{Name: "desired", Type: filter.Hash, About: "a commit that it is to have"},
	{Name: "version", About: "a version that it has, or is to have"},
	{Name: "synced", Type: filter.Word, Values: truths(), About: "all that is desired is applied"},
	{Name: "drifted", Type: filter.Word, Values: truths(), About: "others have changed its objects"},
	{Name: "paused", Type: filter.Word, Values: truths(), About: "it is paused"},
	{Name: "pinned", Type: filter.Word, Values: truths(), About: "leat rollback has pinned it to a revision"},
}

var problemFields = filter.Schema{
	{Name: "reason", Type: filter.Word, About: "the reason of its problem, such as REMOVAL_HELD"},
	{Name: "message", About: "the message of its problem"},
	{Name: "since", Type: filter.Age, About: "how long the problem lasts"},
}

var clusterFields = filter.Schema{
	{Name: "phase", Type: filter.Word, Values: []string{Connected, Disconnected, NotJoined}, About: "whether its agent is connected"},
	{Name: "since", Type: filter.Age, About: "how long its agent is gone"},
	{Name: "cluster.label.", About: "the same as label.KEY"},
	{Name: "version", About: "the version of its agent"},
	{Name: "kubernetes", About: "the version of its API server"},
}

var repositoryFields = filter.Schema{
	{Name: "phase", Type: filter.Word, Values: []string{"CLONING", "READY", "STALE", "FAILED", "SUSPENDED", "UNKNOWN"}, About: "its phase"},
	{Name: "reason", Type: filter.Word, About: "the reason of its problem"},
	{Name: "message", About: "the message of its problem"},
	{Name: "since", Type: filter.Age, About: "how long the problem lasts"},
	{Name: "url", About: "its URL"},
}

func truths() []string { return []string{"true", "false"} }

func anyOfService(s *subject, field, key string, match func(string) bool) bool {
	o := s.service()
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
		return match(truth(o.Spec.Wanted().Pause().At(catalog.Now())))
	case "pinned":
		return match(truth(s.Pin != nil))
	case "drifted":
		return match(truth(s.Report != nil && len(s.Report.Drift) > 0))
	case "commit":
		return s.anyContent(match, func(snapshot *catalog.Snapshot) string { return snapshot.Commit }, func(r *catalog.ServiceReport) []string { return r.AppliedCommits })
	case "applied":
		return s.anyApplied(match, func(r *catalog.ServiceReport) []string { return r.AppliedCommits })
	case "desired":
		return s.anyDesired(match, func(snapshot *catalog.Snapshot) string { return snapshot.Commit })
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

// anyContent reads the desired and the applied content.
func (s *subject) anyContent(match func(string) bool, of func(*catalog.Snapshot) string, applied func(*catalog.ServiceReport) []string) bool {
	return s.anyDesired(match, of) || s.anyApplied(match, applied)
}

// anyDesired reads the desired content. What several sources have counts once.
func (s *subject) anyDesired(match func(string) bool, of func(*catalog.Snapshot) string) bool {
	for i, source := range s.Sources {
		if source.Snapshot == nil || of(source.Snapshot) == "" {
			continue
		}
		text := of(source.Snapshot)
		isKnown := slices.ContainsFunc(s.Sources[:i], func(r catalog.Resolution) bool { return r.Snapshot != nil && of(r.Snapshot) == text })
		if !isKnown && match(text) {
			return true
		}
	}
	return false
}

// anyApplied reads the applied content. What several sources have counts once.
func (s *subject) anyApplied(match func(string) bool, applied func(*catalog.ServiceReport) []string) bool {
	if s.Report == nil {
		return false
	}
	texts := applied(s.Report)
	for i, text := range texts {
		if text != "" && !slices.Contains(texts[:i], text) && match(text) {
			return true
		}
	}
	return false
}

func textOfService(s *subject, match func(string) bool) bool {
	service := s.service()
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

func anyOfCluster(s *subject, field, key string, match func(string) bool) bool {
	cluster, _ := s.Object.(*catalog.Cluster)
	switch field {
	case "cluster.label.":
		return matchLabel(cluster.Labels, key, match)
	case "version":
		return match(cluster.Agent.Report.AgentVersion)
	case "kubernetes":
		return match(cluster.Agent.Report.KubernetesVersion)
	}
	return false
}

func anyOfRepository(s *subject, field, _ string, match func(string) bool) bool {
	return field == "url" && textOfRepository(s, match)
}

func textOfRepository(s *subject, match func(string) bool) bool {
	repository, _ := s.Object.(*catalog.Repository)
	return match(repository.Spec.URL)
}

func truth(is bool) string {
	if is {
		return "true"
	}
	return "false"
}
