// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/standing"
)

const (
	// queryPause is the least time between two messages of WatchQuery.
	queryPause = time.Second
	// standingPause is the least time between two looks of a WatchQuery at states that the database has alone.
	standingPause = 5 * time.Second
	// queriesAtOnce and queriesWaiting bound the queries of one person at a replica, whatever tokens they
	// have: how many run, and how many wait for one to end.
	queriesAtOnce  = 4
	queriesWaiting = 60
	// queryBurst is the time that one person's queries may take after a rest, and queryShare what they
	// get back of the time that passes: 15 s of each minute.
	queryBurst = 20 * time.Second
	queryShare = 0.25
	// maxProblems bounds the groups of GetFleetStatus.
	maxProblems = 200
)

// QueriesDeps are the collaborators of [Queries], all required.
type QueriesDeps struct {
	// People decides who may call.
	People *Service
	// Standing knows the problems of objects that many services depend on.
	Standing *standing.Reader
}

// Queries implements leat.fleet.v1.QueryService.
type Queries struct {
	QueriesDeps

	index *find.Index
	views *find.Views
	// spending is by the names of people.
	spending *admission.Spending
}

var _ fleetv1connect.QueryServiceHandler = (*Queries)(nil)

// NewQueries returns the service that finds objects among many.
func NewQueries(d QueriesDeps) *Queries {
	index := find.NewIndex(fleet.Finding{View: d.People.d.View})
	return &Queries{QueriesDeps: d, index: index, views: find.NewViews(index), spending: admission.NewSpending(admission.Allowance{
		AtOnce: queriesAtOnce, Waiting: queriesWaiting, Burst: queryBurst, Share: queryShare,
	})}
}

// QueryFleet implements QueryServiceHandler.
func (s *Queries) QueryFleet(ctx context.Context, req *fleetv1.QueryFleetRequest) (*fleetv1.QueryFleetResponse, error) {
	c, err := s.People.person(ctx)
	if err != nil {
		return nil, err
	}
	q, err := fleetQueryOf(req.GetQuery())
	if err != nil {
		return nil, wire.Error(err)
	}
	result, err := s.run(ctx, c, q)
	if err != nil {
		return nil, err
	}
	response := &fleetv1.QueryFleetResponse{Rows: c.rows(result), Total: int32(result.Total), Groups: groupsMessage(result), Arrival: arrivalMessage(result.Arrival)}
	if req.GetDocuments() {
		err = s.addDocuments(ctx, c, result, response.GetRows())
	}
	return response, err
}

// addDocuments adds the documents of rows, as the lists of their kinds show them.
func (s *Queries) addDocuments(ctx context.Context, c *caller, result *find.Result, rows []*fleetv1.FleetRow) error {
	if len(rows) == 0 {
		return nil
	}
	records := make([]fleet.Record, len(result.Rows))
	for i, row := range result.Rows {
		records[i] = c.shown(c.view.Records.Describe(row.Object))
	}
	documents, err := s.People.documents(ctx, c, records)
	for i := range documents {
		rows[i].Document = documents[i]
	}
	return err
}

// fleetQueryOf returns the query of a request. The error is a *fielderr.Error.
func fleetQueryOf(m *fleetv1.FleetQuery) (*find.Query, error) {
	if err := optionalProject(m.GetProject()); err != nil {
		return nil, fielderr.Within("query", err)
	}
	cluster, err := optionalPath("query.cluster", m.GetCluster())
	if err != nil {
		return nil, err
	}
	q, err := find.NewQuery(find.Params{
		Kind: catalog.Kind(m.GetKind()), Filter: m.GetFilter(), Project: m.GetProject(), Cluster: cluster, Order: m.GetOrder(),
		Offset: int(m.GetOffset()), Size: int(m.GetSize()), GroupBy: m.GetGroupBy(),
		ArrivalOf: m.GetArrivalOf(),
	})
	return q, fielderr.Within("query", err)
}

// begin waits until the caller may run a query, and returns the function that ends it. The error is
// RESOURCE_EXHAUSTED if the caller's queries have taken too much of the replica's time.
func (s *Queries) begin(ctx context.Context, c *caller) (end func(), err error) {
	end, wait, err := s.spending.Begin(ctx, c.Name)
	switch {
	case errors.Is(err, admission.ErrSpent):
		return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, fmt.Sprintf(
			"your queries took more than %s of the hub's time; wait as told, and narrow them by a project or a cluster, or leave terms out", queryBurst,
		), rpcerr.RetryAfter(wait))
	case errors.Is(err, admission.ErrCrowded):
		return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, fmt.Sprintf(
			"you have %d queries at once at this replica; wait for their answers", queriesAtOnce+queriesWaiting,
		), rpcerr.RetryAfter(time.Second))
	}
	return end, err
}

// run returns the result of a query, as far as the caller may see it.
func (s *Queries) run(ctx context.Context, c *caller, q *find.Query) (*find.Result, error) {
	end, err := s.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	return s.ask(ctx, c, q)
}

// ask is run for callers that have begun.
func (s *Queries) ask(ctx context.Context, c *caller, q *find.Query) (*find.Result, error) {
	viewer := func() find.Viewer { return c.viewer(q) }
	if kinds[q.Kind()].isViewed {
		result, err := s.views.Run(ctx, q, c.rights, viewer)
		return result, queryError(err)
	}
	snapshot, err := s.snapshot(ctx, q.Kind())
	if err != nil {
		return nil, err
	}
	result, err := q.Run(ctx, snapshot, viewer(), time.Now())
	return result, queryError(err)
}

// queryError returns the error to answer with.
func queryError(err error) error {
	if errors.Is(err, find.ErrTooMuch) {
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, err.Error())
	}
	return err
}

// viewer returns what the caller may see of a query. It counts as long as no cluster has other labels.
func (c *caller) viewer(q *find.Query) find.Viewer {
	verb := c.needs().Verb
	seesCluster := c.visible(verb)
	labels := map[string]map[string]string{}
	v := find.Viewer{LabelsOf: func(name string) map[string]string {
		found, ok := labels[name]
		if !ok {
			if cluster, ok := c.view.Catalog.Cluster(name); ok && seesCluster(cluster) {
				found = cluster.Labels
			}
			labels[name] = found
		}
		return found
	}}
	seesAll := c.rights.HoldsEverywhere(catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(q.Kind())})
	if !seesAll {
		v.Sees = c.visible(verb)
	}
	if q.Kind() == catalog.KindService && (!seesAll || q.Cluster() != "") {
		v.Candidates = fleet.Finding{View: c.view}.Candidates(q.Cluster(), q.Project(), c.scope(verb))
	}
	return v
}

// WatchQuery implements QueryServiceHandler.
func (s *Queries) WatchQuery(ctx context.Context, req *fleetv1.WatchQueryRequest, stream *connect.ServerStream[fleetv1.WatchQueryResponse]) error {
	c, err := s.People.person(ctx)
	if err != nil {
		return err
	}
	q, err := fleetQueryOf(req.GetQuery())
	if err != nil {
		return wire.Error(err)
	}
	watch := &queryWatch{service: s, caller: c, query: q, hasDocuments: req.GetDocuments(), send: stream.Send}
	if err := watch.look(ctx, false); err != nil {
		return err
	}
	due := wake.NewSignal()
	timer := time.AfterFunc(timeouts.Align(queryPause), due.Set)
	defer timer.Stop()
	return (&wire.Stream{
		Expires: c.Expires,
		Ready:   due,
		Changed: func() error {
			defer timer.Reset(timeouts.Align(queryPause))
			return watch.look(ctx, false)
		},
		Beat: func() error {
			// They may have left, be in other groups, or hold other bindings, some of which may have ended.
			if watch.caller, err = s.People.person(ctx); err != nil {
				return err
			}
			if err := watch.look(ctx, true); err != nil {
				return err
			}
			return stream.Send(&fleetv1.WatchQueryResponse{})
		},
		Drain: wire.ShuttingDown,
	}).Run(ctx)
}

// queryWatch is one stream of WatchQuery. It is for one goroutine.
type queryWatch struct {
	service *Queries
	caller  *caller
	query   *find.Query
	// hasDocuments is true if rows carry their documents.
	hasDocuments bool
	send         func(*fleetv1.WatchQueryResponse) error
	// generation is the index's at the latest look, rights are the caller's, and looked is when that was.
	generation uint64
	rights     *authz.Rights
	looked     time.Time
	// revision is the catalog's when the caller's rights were found.
	revision int64
	sent     sentWindow
}

// look sends what changed since the last time. It does nothing if the result is the one of the last time.
func (w *queryWatch) look(ctx context.Context, isBeat bool) error {
	generation := w.service.index.Generation()
	// Edits and time change rights. Where nothing else is new, a beat is early enough to see that a binding has ended.
	revision := w.caller.view.Catalog.Revision()
	if isBeat || revision != w.revision || generation != w.generation || isStanding(w.query.Kind()) {
		w.revision, w.caller.rights = revision, w.caller.view.Accounts().Rights(w.caller.person)
	}
	if !w.isDue(generation, time.Now(), isBeat) {
		return nil
	}
	end, err := w.service.begin(ctx, w.caller)
	if err != nil && w.sent.counts != nil && ctx.Err() == nil {
		return nil // the caller keeps what it has, and the stream looks again after the next pause
	}
	if err != nil {
		return err
	}
	w.generation, w.rights, w.looked = generation, w.caller.rights, time.Now()
	result, err := w.service.ask(ctx, w.caller, w.query)
	end()
	if err != nil {
		return err
	}
	rows := w.caller.rows(result)
	if w.hasDocuments {
		if err := w.service.addDocuments(ctx, w.caller, result, rows); err != nil {
			return err
		}
	}
	message, err := w.sent.update(rows, &fleetv1.WatchQueryResponse{
		Total: int32(result.Total), Groups: groupsMessage(result), Arrival: arrivalMessage(result.Arrival),
	})
	if message == nil || err != nil {
		return err
	}
	return w.send(message)
}

// isDue reports whether the result can differ from that of the latest look. An idle fleet costs a hub nothing for each
// page that shows it: only a beat looks at what changes with time, and at documents, whose states are not all in the
// index.
func (w *queryWatch) isDue(generation uint64, now time.Time, isBeat bool) bool {
	return w.rights == nil || generation != w.generation || !w.caller.rights.Equal(w.rights) ||
		isBeat && (w.hasDocuments || w.query.TellsTime()) ||
		isStanding(w.query.Kind()) && now.Sub(w.looked) >= standingPause
}

// sentWindow is what a caller of WatchQuery has been sent. It keeps no rows, which would cost a hub a hundred KiB for each
// page that is open, but their digests. It is for one goroutine.
type sentWindow struct {
	// window has the refs of the rows in their order, and digests those of the rows, by ref.
	window  []string
	digests map[string]rowDigest
	// counts is what was told beside the rows; nil: nothing was sent yet.
	counts *fleetv1.WatchQueryResponse
}

// rowDigest tells rows of one ref apart.
type rowDigest [sha256.Size224]byte

// update returns the difference that has to be sent so that the caller has a window and counts, or nil. They have both
// then. The error is one of rows that cannot be encoded.
func (w *sentWindow) update(rows []*fleetv1.FleetRow, counts *fleetv1.WatchQueryResponse) (*fleetv1.WatchQueryResponse, error) {
	message := &fleetv1.WatchQueryResponse{}
	next, window := make(map[string]rowDigest, len(rows)), make([]string, len(rows))
	var encoded []byte
	for i, row := range rows {
		var err error
		if encoded, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(encoded[:0], row); err != nil {
			return nil, err
		}
		now := rowDigest(sha256.Sum224(encoded))
		if before, ok := w.digests[row.GetRef()]; !ok || before != now {
			message.Rows = append(message.Rows, row)
		}
		window[i], next[row.GetRef()] = row.GetRef(), now
	}
	if w.counts == nil || !slices.Equal(window, w.window) {
		message.Window, message.HasWindow = window, true
	}
	if w.counts == nil || !proto.Equal(counts, w.counts) {
		message.Total, message.Groups, message.Arrival, message.HasCounts = counts.GetTotal(), counts.GetGroups(), counts.GetArrival(), true
	}
	w.digests, w.window, w.counts = next, window, counts
	if len(message.GetRows()) == 0 && !message.GetHasWindow() && !message.GetHasCounts() {
		return nil, nil
	}
	return message, nil
}

// GetFleetStatus implements QueryServiceHandler.
func (s *Queries) GetFleetStatus(ctx context.Context, req *fleetv1.GetFleetStatusRequest) (*fleetv1.GetFleetStatusResponse, error) {
	c, err := s.People.person(ctx)
	if err != nil {
		return nil, err
	}
	if err := optionalProject(req.GetProject()); err != nil {
		return nil, wire.Error(err)
	}
	only, err := optionalPath("cluster", req.GetCluster())
	if err != nil {
		return nil, wire.Error(err)
	}
	end, err := s.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	w := statusWalk{
		queries: s, caller: c, project: req.GetProject(), cluster: only, uses: problems.Uses{HubVersion: s.People.d.Settings.Version},
	}
	response := &fleetv1.GetFleetStatusResponse{}
	// Services come first: the problems of clusters depend on what uses them.
	if response.Services, err = w.kind(ctx, catalog.KindService); err != nil {
		return nil, err
	}
	if response.Clusters, err = w.kind(ctx, catalog.KindCluster); err != nil {
		return nil, err
	}
	if only == "" {
		if response.Repositories, err = w.kind(ctx, catalog.KindRepository); err != nil {
			return nil, err
		}
		if err := w.others(ctx); err != nil {
			return nil, err
		}
	}
	groups, omitted := w.grouper.Groups(maxProblems)
	response.Problems, response.Omitted = wire.Each(groups, problemMessage), int32(omitted)
	if len(groups) > 0 {
		response.Severity = fleetv1.ProblemSeverity(groups[0].Severity)
	}
	return response, nil
}

// statusWalk visits all objects for their problems. It is for one goroutine.
type statusWalk struct {
	queries          *Queries
	caller           *caller
	project, cluster string
	grouper          problems.Grouper
	uses             problems.Uses
}

// kind adds the problems of all objects of a kind, and counts them by phase.
func (w *statusWalk) kind(ctx context.Context, kind catalog.Kind) ([]*fleetv1.FleetGroup, error) {
	p := find.Params{Kind: kind, Project: w.project}
	if kind == catalog.KindService {
		p.Cluster = w.cluster
	}
	q, err := find.NewQuery(p)
	if err != nil {
		return nil, wire.Error(err)
	}
	phases := map[string]int32{}
	err = q.Select(ctx, w.queries.index.Snapshot(kind), w.caller.viewer(q), time.Now(), func(row *find.Row) bool {
		object := row.Object
		if service, ok := object.(*catalog.Service); ok {
			w.uses.Add(service)
		}
		if kind == catalog.KindCluster && w.cluster != "" && object.Meta().Name != w.cluster {
			return true
		}
		phases[orUnknown(row.Phase)]++
		for _, item := range problems.Of(row, &w.uses) {
			services := 0
			if kind == catalog.KindCluster {
				services = w.uses.Services(object.Meta().Name)
			}
			w.grouper.Add(item, services)
		}
		return true
	})
	return groupMessages(phases), queryError(err)
}

// rows returns the rows of a result as the caller sees them.
func (c *caller) rows(result *find.Result) []*fleetv1.FleetRow {
	rows := make([]*fleetv1.FleetRow, len(result.Rows))
	var changes []catalog.Permission // the same for all rows, which are of one kind
	for i, row := range result.Rows {
		if i == 0 {
			changes = changesOf(catalog.ResourceOf(row.Object.Key().Kind))
		}
		rows[i] = rowMessage(row)
		rows[i].Can = c.can(row.Object, changes)
		if cluster, ok := row.Object.(*catalog.Cluster); ok {
			record := c.shown(c.view.Records.Describe(cluster))
			rows[i].Total, rows[i].Healthy = int32(record.Cluster.Services), int32(record.Cluster.ServicesHealthy)
		}
	}
	return rows
}

// can returns which of the verbs of some permissions the caller may use on an object.
func (c *caller) can(object catalog.Object, among []catalog.Permission) []string {
	of := authz.ObjectOf(c.view.Catalog, object)
	var verbs []string
	for _, p := range c.rights.Permissions(among, of) {
		verbs = append(verbs, p.Verb)
	}
	return verbs
}

// changesOf returns the permissions on a resource besides the reading ones.
func changesOf(resource string) []catalog.Permission {
	return slices.DeleteFunc(catalog.Permissions(), func(p catalog.Permission) bool {
		return p.Resource != resource || slices.Contains([]string{catalog.VerbGet, catalog.VerbList, catalog.VerbWatch, catalog.VerbCreate, catalog.VerbUse}, p.Verb)
	})
}

// refOf returns how references name an object.
func refOf(path string) string { return objectname.Display(path) }
