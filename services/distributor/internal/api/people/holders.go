// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
)

// Bounds of a question about the past.
const (
	// maxUndone bounds the records that one question undoes, and maxMoments the states within its span
	// that it decides about.
	maxUndone, maxMoments = 200_000, 1000
	// maxHolders bounds the answer.
	maxHolders = 10_000
	// recordsPage is how many records are read at once.
	recordsPage = 1000
	// maxRereads bounds the attempts to read a present that the records lead to: another replica may
	// store changes in between.
	maxRereads = 5
)

// clockSkew is how much the clocks of replicas, and of callers, may differ.
const clockSkew = time.Minute

// errEarlier ends a search: what follows was made before the span.
var errEarlier = errors.New("before the span")

// errTooMuch is the error of a question whose answer needs more than the bounds allow.
var errTooMuch = errors.New("too much for one answer")

// ListAccessHolders implements FleetService.
func (s *Service) ListAccessHolders(ctx context.Context, req *fleetv1.ListAccessHoldersRequest) (*fleetv1.ListAccessHoldersResponse, error) {
	if err := s.atHub(ctx); err != nil {
		return nil, err
	}
	q, err := holdersQueryOf(req, catalog.Now())
	if err != nil {
		return nil, wire.Error(err)
	}
	reach, err := s.d.Audit.Reach(ctx)
	if err != nil {
		return nil, wire.Error(err)
	}
	if reach.IsZero() || q.since.Before(reach) {
		return nil, tooEarly(q.since, reach)
	}
	found, err := s.holders(ctx, q)
	switch {
	case errors.Is(err, errTooMuch):
		return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_MESSAGE_TOO_LARGE, err.Error()+"; ask about a shorter or a later time")
	case errors.Is(err, journal.ErrInconsistent):
		return nil, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			err.Error()+"; try again, and if it stays so, compare the records with the copy that the audit log's outputs have")
	case err != nil:
		return nil, wire.Error(err)
	case !found.existed:
		return nil, wire.NotFound(catalog.Key{Kind: catalog.KindCluster, Name: q.cluster})
	}
	return &fleetv1.ListAccessHoldersResponse{
		Holders: found.messages(q), Gaps: found.gaps, Since: catalogwire.Timestamp(q.since), Until: catalogwire.Timestamp(q.until),
		RecordedSince: catalogwire.Timestamp(reach),
	}, nil
}

func tooEarly(since, reach time.Time) error {
	if reach.IsZero() {
		return rpcerr.Field("since", "the hub has no records of changes, so nothing is known of the past")
	}
	return rpcerr.Field("since", fmt.Sprintf(
		"is %s; the records of changes reach back to %s only. Older ones may be with the outputs of the audit log",
		since.UTC().Format(time.RFC3339), reach.UTC().Format(time.RFC3339Nano)))
}

// holdersQuery is a validated question. The span begins at since, and until is not in it.
type holdersQuery struct {
	cluster      string
	request      accessrule.Request
	since, until time.Time
}

// holdersQueryOf validates a request. A span without a length is one of the shortest time there is.
func holdersQueryOf(req *fleetv1.ListAccessHoldersRequest, now time.Time) (q holdersQuery, err error) {
	if req.GetCluster() == "" {
		return q, rpcerr.Field("cluster", "is required")
	}
	if q.cluster, err = optionalPath("cluster", req.GetCluster()); err != nil {
		return q, err
	}
	if q.request, err = attributesOf(req.GetAttributes()); err != nil {
		return q, err
	}
	for field, at := range map[string]*timestamppb.Timestamp{"since": req.GetSince(), "until": req.GetUntil()} {
		if at != nil && at.CheckValid() != nil {
			return q, rpcerr.Field(field, "is not a valid time")
		}
	}
	q.since, q.until = catalogwire.TimeOf(req.GetSince()), catalogwire.TimeOf(req.GetUntil())
	if q.since.IsZero() {
		q.since = now
	}
	if q.until.IsZero() || q.until.After(now) {
		q.until = now
	}
	switch {
	case q.since.After(now):
		return q, rpcerr.Field("since", "is in the future")
	case req.GetUntil() != nil && q.until.Before(q.since):
		return q, rpcerr.Field("until", "is before since")
	case !q.until.After(q.since):
		q.until = q.since.Add(time.Microsecond)
	}
	return q, nil
}

// holders answers a question from a present and the records since.
func (s *Service) holders(ctx context.Context, q holdersQuery) (*holdersFound, error) {
	signIns, err := s.signIns(ctx, q)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		if err := s.d.View.Refresh(ctx); err != nil {
			return nil, err
		}
		present, err := s.present(q.cluster)
		if err != nil {
			return nil, err
		}
		found, err := s.undo(ctx, q, present, signIns)
		if !errors.Is(err, journal.ErrInconsistent) || attempt == maxRereads {
			return found, err
		}
	}
}

// decisive are the kinds whose objects decide who reaches a cluster.
var decisive = map[string]decisiveKind{
	string(catalog.KindCluster): decides(clusterOfRecord, func(at *state, cluster string, o *catalog.Cluster) {
		if o.Name == cluster {
			at.Target = o
		}
	}),
	string(catalog.KindAccessBinding): decides(namedRecord(codec.BindingOf), func(at *state, _ string, o *catalog.AccessBinding) {
		at.Bindings = append(at.Bindings, o)
	}),
	string(catalog.KindRole): decides(namedRecord(codec.RoleObjectOf), func(at *state, _ string, o *catalog.Role) {
		at.Roles[catalog.RoleName(o.Name)] = o.Spec
	}),
	string(catalog.KindUser): decides(namedRecord(codec.UserOf), func(at *state, _ string, o *catalog.User) {
		at.users = append(at.users, o)
	}),
}

// decisiveKind is one of them.
type decisiveKind struct {
	// read returns the object of a document that is made of records, which has no name of its own.
	read func(name string, document []byte) (catalog.Object, error)
	// add adds an object to what decides about a cluster, which is given by its path.
	add func(at *state, cluster string, object catalog.Object)
}

func decides[M proto.Message, O catalog.Object](of func(name string, m M) (O, error), add func(at *state, cluster string, o O)) decisiveKind {
	return decisiveKind{
		read: func(name string, document []byte) (catalog.Object, error) {
			var none M
			m, _ := none.ProtoReflect().New().Interface().(M)
			if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(document, m); err != nil {
				return nil, err
			}
			return of(name, m)
		},
		add: func(at *state, cluster string, object catalog.Object) {
			o, _ := object.(O)
			add(at, cluster, o)
		},
	}
}

// clusterOfRecord returns of a cluster what bindings select it by.
func clusterOfRecord(name string, m *fleetv1.Cluster) (*catalog.Cluster, error) {
	path, err := optionalPath("name", name)
	return &catalog.Cluster{Metadata: catalog.Metadata{Name: path, Labels: m.GetMetadata().GetLabels()}}, err
}

// namedRecord reads a message, and names the object.
func namedRecord[M proto.Message, O catalog.Object](read func(M) (O, error)) func(string, M) (O, error) {
	return func(name string, m M) (O, error) {
		object, err := read(m)
		if err == nil {
			object.Meta().Name = name
		}
		return object, err
	}
}

// decisiveKinds returns the names of those kinds, sorted.
func decisiveKinds() []string { return slices.Sorted(maps.Keys(decisive)) }

// present returns what decides about a cluster now.
func (s *Service) present(cluster string) (*journal.Past, error) {
	past := journal.NewPast(decisiveKinds()...)
	for _, kind := range decisiveKinds() {
		query := fleet.Query{Kind: catalog.Kind(kind), Limit: math.MaxInt32}
		if query.Kind == catalog.KindCluster {
			query.Keep = func(object catalog.Object) bool { return object.Key().Name == cluster }
		}
		records, _ := s.d.View.Records.List(query)
		for _, record := range records {
			document, err := Describe(record.Object)
			if err != nil {
				return nil, err
			}
			if err := past.Put(recordedName(record.Object.Key()), document); err != nil {
				return nil, err
			}
		}
	}
	return past, nil
}

// recordedName returns the name by which records know an object.
func recordedName(key catalog.Key) journal.ObjectName {
	name := journal.ObjectName{Kind: string(key.Kind), Name: key.Name}
	if key.Kind.InProject() {
		name.Name = objectname.Display(key.Name)
	}
	return name
}

// undo takes the records since the beginning of the span back, the newest first, and decides about
// each state within the span.
func (s *Service) undo(ctx context.Context, q holdersQuery, past *journal.Past, signIns []signIn) (*holdersFound, error) {
	found := newHoldersFound(q, signIns)
	states := &stateCache{past: past, objects: map[journal.ObjectName]catalog.Object{}}
	cluster := recordedName(catalog.Key{Kind: catalog.KindCluster, Name: q.cluster})
	end, undone, moments := q.until, 0, 0
	decide := func(from time.Time) error {
		if !from.Before(end) {
			return nil
		}
		if moments++; moments > maxMoments {
			return fmt.Errorf("%w: rights changed more than %d times within the span", errTooMuch, maxMoments)
		}
		state, err := states.at(cluster)
		if err != nil {
			return err
		}
		err = found.add(state, from, end)
		end = from
		return err
	}
	// Clocks of replicas differ, so the first record that is too old by its own time ends the search.
	kinds := append(decisiveKinds(), catalog.RecordHub)
	query := journal.Query{Kinds: kinds, Outcome: journal.OutcomeOK, Since: q.since.Add(-clockSkew), Limit: recordsPage}
	err := s.eachRecord(ctx, query, func(e journal.Entry) error {
		if e.Time.Before(q.since) {
			return errEarlier
		}
		if undone++; undone > maxUndone {
			return fmt.Errorf("%w: more than %d changes since then", errTooMuch, maxUndone)
		}
		if e.Kind == catalog.RecordHub {
			found.restored(e)
			return nil
		}
		if e.Kind == cluster.Kind && e.Name != cluster.Name {
			return nil
		}
		if err := decide(e.Time); err != nil {
			return err
		}
		name := journal.ObjectName{Kind: e.Kind, Name: e.Name}
		delete(states.objects, name)
		if err := past.Undo(e); err != nil {
			return err
		}
		found.lacks(past, name, e)
		return nil
	})
	if err != nil && !errors.Is(err, errEarlier) {
		return nil, err
	}
	return found, decide(q.since)
}

// eachRecord calls fn with every record that a query selects, the newest first.
func (s *Service) eachRecord(ctx context.Context, q journal.Query, fn func(journal.Entry) error) error {
	for {
		page, err := s.d.Audit.Find(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		if q.Before = page.Next; q.Before == 0 {
			return nil
		}
	}
}

// stateCache makes objects of the documents of a Past. An object is made again after it was forgotten.
type stateCache struct {
	past    *journal.Past
	objects map[journal.ObjectName]catalog.Object
}

// state holds the objects that decided at one moment.
type state struct {
	authz.Moment
	users []*catalog.User
}

// at returns the state; its Target is nil if the cluster did not exist.
func (c *stateCache) at(cluster journal.ObjectName) (state, error) {
	var at state
	at.Roles = map[catalog.RoleName]catalog.RoleSpec{}
	path, err := optionalPath("name", cluster.Name)
	if err != nil {
		return at, err
	}
	for _, kind := range decisiveKinds() {
		for _, name := range c.past.Names(kind) {
			object, err := c.object(journal.ObjectName{Kind: kind, Name: name})
			if err != nil {
				return at, err
			}
			decisive[kind].add(&at, path, object)
		}
	}
	return at, nil
}

func (c *stateCache) object(name journal.ObjectName) (catalog.Object, error) {
	if object, ok := c.objects[name]; ok {
		return object, nil
	}
	document, err := c.past.Document(name)
	if err != nil {
		return nil, err
	}
	object, err := decisive[name.Kind].read(name.Name, document)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", journal.ErrInconsistent, name.Kind, name.Name, err)
	}
	c.objects[name] = object
	return object, nil
}
