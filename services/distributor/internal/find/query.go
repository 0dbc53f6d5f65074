// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/filter"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// DefaultSize is how many rows a window has if the query has no size.
	DefaultSize = 100
	// MaxSize is the most rows that a window may have.
	MaxSize = 500
	// maxGroupings bounds the fields of one query by which objects are counted, and maxGroups the values of
	// each.
	maxGroupings = 4
	maxGroups    = 1000
	// maxWork bounds the time that one query takes.
	maxWork = 5 * time.Second
	// pace is how many objects are visited between two readings of the clock.
	pace = 1000
)

// ErrTooMuch means that a query took too long: fewer terms or groups, or a project, take less.
var ErrTooMuch = errors.New("the query takes too long; narrow it by a project or a cluster, or leave terms out")

// Params are a query as callers write it.
type Params struct {
	Kind                   catalog.Kind
	Filter, Project, Order string
	Cluster                string // a path; of services alone
	Offset, Size           int
	GroupBy                []string
	// ArrivalOf is the commit, or its beginning, of which Result has the Arrival; of services alone. Empty: none.
	ArrivalOf string
}

// Query is a query that was checked.
type Query struct {
	kind             catalog.Kind
	about            kind
	filter           *filter.Filter
	project, cluster string
	order            string
	isReversed       bool
	offset, size     int
	groupings        []grouping
	arrivalOf        string
	key              string
}

// grouping is a field by which objects are counted.
type grouping struct{ written, field, key string }

// NewQuery checks a query. The error is a *fielderr.Error.
func NewQuery(p Params) (*Query, error) {
	about, ok := kindOf(p.Kind)
	if !ok {
		return nil, fielderr.New("kind", "%.80q is not a kind; write one such as Service, Cluster or Repository", string(p.Kind))
	}
	fields := Fields(p.Kind)
	parsed, err := filter.Parse(p.Filter, fields)
	if err != nil {
		return nil, fielderr.New("filter", "%s", err)
	}
	q := &Query{kind: p.Kind, about: about, filter: parsed, project: p.Project, cluster: p.Cluster, offset: p.Offset, size: p.Size, arrivalOf: p.ArrivalOf}
	q.order, q.isReversed = strings.CutPrefix(cmp.Or(p.Order, orderName), "-")
	if orders := append([]string{orderName}, about.orders...); !slices.Contains(orders, q.order) {
		return nil, fielderr.New("order", "%.80q is not an order; write one of %s, with a - before it for the reverse", p.Order, strings.Join(orders, ", "))
	}
	switch {
	case p.Offset < 0:
		return nil, fielderr.New("offset", "is negative")
	case p.Size < 0:
		return nil, fielderr.New("size", "is negative")
	case p.Cluster != "" && p.Kind != catalog.KindService:
		return nil, fielderr.New("cluster", "selects services, and nothing else")
	}
	if err := checkArrivalOf(p); err != nil {
		return nil, err
	}
	q.size = min(cmp.Or(q.size, DefaultSize), MaxSize)
	by := p.GroupBy
	if _, _, hasPhase := fields.Find("phase"); len(by) == 0 && hasPhase {
		by = []string{"phase"}
	}
	if len(by) > maxGroupings {
		return nil, fielderr.New("group_by", "has %d fields; at most %d are allowed", len(by), maxGroupings)
	}
	for i, written := range by {
		field, key, ok := fields.Find(written)
		if !ok || !isGroupable(field) {
			return nil, fielderr.New(fielderr.Indexed("group_by", i), "objects cannot be counted by %.80q", written)
		}
		q.groupings = append(q.groupings, grouping{written: written, field: field.Name, key: key})
	}
	q.key = fmt.Sprintf("%s %q %q %q %q %d %d %q %q", q.kind, parsed, q.project, q.cluster, p.Order, q.offset, q.size, by, q.arrivalOf)
	return q, nil
}

// checkArrivalOf returns a *fielderr.Error if the query cannot measure what it asks for.
func checkArrivalOf(p Params) error {
	switch {
	case p.ArrivalOf == "":
		return nil
	case p.Kind != catalog.KindService:
		return fielderr.New("arrival_of", "measures services, and nothing else")
	case !commitBeginning.MatchString(p.ArrivalOf):
		return fielderr.New("arrival_of", "%.80q is not a commit, nor the first four characters or more of one", p.ArrivalOf)
	}
	return nil
}

// Kind returns the kind of the objects.
func (q *Query) Kind() catalog.Kind { return q.kind }

// Cluster returns the cluster whose services are selected; empty: all.
func (q *Query) Cluster() string { return q.cluster }

// Project returns the project whose objects are selected; empty: all.
func (q *Query) Project() string { return q.project }

// TellsTime reports whether the result can change by time alone.
func (q *Query) TellsTime() bool { return q.filter.TellsTime() }

// Viewer is who asks: what they may see. Its functions are for one goroutine.
type Viewer struct {
	// Candidates are names that may be visible, sorted. They contain all that are. Nil: all names.
	Candidates []string
	// Sees reports whether an object is visible. Nil: all are.
	Sees func(catalog.Object) bool
	// LabelsOf returns the labels of a cluster, or nil if the viewer may not see the cluster.
	LabelsOf func(cluster string) map[string]string
}

// Result is the result of a query.
type Result struct {
	// Rows are the rows of the window.
	Rows []*Row
	// Total counts all objects that the query selects.
	Total  int
	Groups []Groups
	// Arrival is nil unless the query asks for it.
	Arrival *Arrival
}

// Groups are the counts by one field, the largest first.
type Groups struct {
	Field  string
	Counts []Count
	// Omitted is how many values were not counted.
	Omitted int
}

// Count counts the objects with one value.
type Count struct {
	Value string
	N     int
}

// Select calls visit with each row that the query selects and the viewer may see, by name, until
// visit returns false. A row that the viewer may not see is not compared with the filter, and so
// has no part in how long a query takes beyond the decision about it. The error is ErrTooMuch, or
// the context's.
func (q *Query) Select(ctx context.Context, s Snapshot, v Viewer, now time.Time, visit func(*Row) bool) error {
	began, looked := time.Now(), 0
	seen := &subject{kind: q.about, labelsOf: v.LabelsOf}
	var failure error
	look := func(name string, row *Row) bool {
		if looked++; looked%pace == 0 {
			if failure = context.Cause(ctx); failure == nil && time.Since(began) > maxWork {
				failure = ErrTooMuch
			}
			if failure != nil {
				return false
			}
		}
		seen.Row = row
		switch {
		case q.project != "" && q.kind.InProject() && objectname.Project(name) != q.project,
			q.cluster != "" && row.service().Spec.Cluster != q.cluster,
			v.Sees != nil && !v.Sees(row.Object),
			!q.filter.IsEmpty() && !q.filter.Matches(seen, now):
			return true
		}
		return visit(row)
	}
	if v.Candidates == nil {
		s.rows.Scan(look)
		return failure
	}
	for _, name := range v.Candidates {
		if row, ok := s.rows.Get(name); ok && !look(name, row) {
			break
		}
	}
	return failure
}

// Run returns the window and the counts of a query.
func (q *Query) Run(ctx context.Context, s Snapshot, v Viewer, now time.Time) (*Result, error) {
	result := &Result{}
	counters, adders := make([]counter, len(q.groupings)), make([]func(string) bool, len(q.groupings))
	for i := range counters {
		counters[i].counts, adders[i] = map[string]int{}, counters[i].add
	}
	counted := &subject{kind: q.about, labelsOf: v.LabelsOf, isCounted: true}
	isByName := q.order == orderName && !q.isReversed
	measured := arrivals{commit: q.arrivalOf}
	err := q.Select(ctx, s, v, now, func(row *Row) bool {
		if !isByName || result.Total >= q.offset && result.Total-q.offset < q.size {
			result.Rows = append(result.Rows, row)
		}
		result.Total++
		counted.Row = row
		for i, g := range q.groupings {
			counted.Any(g.field, g.key, adders[i])
		}
		if q.arrivalOf != "" {
			measured.add(row)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if q.arrivalOf != "" {
		result.Arrival = measured.result()
	}
	if !isByName {
		q.sort(result.Rows)
		from := min(q.offset, len(result.Rows))
		result.Rows = slices.Clone(result.Rows[from : min(len(result.Rows)-from, q.size)+from])
	}
	for i, g := range q.groupings {
		result.Groups = append(result.Groups, Groups{Field: g.written, Counts: counters[i].sorted(), Omitted: counters[i].omitted})
	}
	return result, nil
}

// counter counts values.
type counter struct {
	counts  map[string]int
	omitted int
}

// add counts a value, and continues with the next one.
func (c *counter) add(value string) bool {
	if n, ok := c.counts[value]; ok || len(c.counts) < maxGroups {
		c.counts[value] = n + 1
	} else {
		c.omitted++
	}
	return false
}

func (c *counter) sorted() []Count {
	var all []Count
	for _, value := range slices.Sorted(maps.Keys(c.counts)) {
		all = append(all, Count{Value: value, N: c.counts[value]})
	}
	slices.SortStableFunc(all, func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	return all
}

// sort orders rows, which are sorted by name.
func (q *Query) sort(rows []*Row) {
	var compare func(a, b *Row) int
	switch q.order {
	case orderSince:
		compare = func(a, b *Row) int { return b.Since.Compare(a.Since) }
	case orderSeverity:
		compare = func(a, b *Row) int { return cmp.Compare(badness(b), badness(a)) }
	case orderAge:
		compare = func(a, b *Row) int { return b.Object.Meta().CreatedAt.Compare(a.Object.Meta().CreatedAt) }
	case orderCluster:
		compare = func(a, b *Row) int { return cmp.Compare(a.service().Spec.Cluster, b.service().Spec.Cluster) }
	default:
		slices.Reverse(rows) // by name
		return
	}
	slices.SortStableFunc(rows, func(a, b *Row) int {
		if q.isReversed {
			a, b = b, a
		}
		return compare(a, b)
	})
}

// badness orders rows: the worst have the largest.
func badness(r *Row) int {
	n := 0
	switch r.Phase {
	case string(catalog.PhaseFailed), Disconnected:
		n = 8
	case string(catalog.PhaseDegraded), "STALE":
		n = 6
	case NotJoined:
		n = 4
	case string(catalog.PhaseHealthy), "READY", Connected:
		n = 0
	default:
		n = 2
	}
	if r.Problem != nil {
		n++
	}
	return n
}
