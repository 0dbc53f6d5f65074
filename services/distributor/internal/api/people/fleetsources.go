// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// FleetSources implements leat.fleet.v1.FleetSourceService.
type FleetSources struct {
	// people decides who may call.
	people *Service
}

var _ fleetv1connect.FleetSourceServiceHandler = (*FleetSources)(nil)

// NewFleetSources returns the service for fleet sources.
func NewFleetSources(people *Service) *FleetSources { return &FleetSources{people: people} }

// SyncFleetSource implements FleetSourceServiceHandler. A repository that cannot be fetched does
// not keep the source from being reconciled as last known; its state has the problem.
func (f *FleetSources) SyncFleetSource(ctx context.Context, req *fleetv1.SyncFleetSourceRequest) (*fleetv1.SyncFleetSourceResponse, error) {
	source, err := f.permitted(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	fetching, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := f.people.d.Mirrors.Refresh(fetching, source.Spec.Source.Repository); err != nil {
		f.people.d.Logger.WarnContext(ctx, "look at a fleet source goes on with what was last known", slog.Any("error", err))
	}
	asked, err := f.people.d.States.FleetSources.Ask(ctx, source.UID)
	return &fleetv1.SyncFleetSourceResponse{Request: asked}, wire.Error(err)
}

// ConfirmFleetSource implements FleetSourceServiceHandler.
func (f *FleetSources) ConfirmFleetSource(ctx context.Context, req *fleetv1.ConfirmFleetSourceRequest) (*fleetv1.ConfirmFleetSourceResponse, error) {
	source, err := f.permitted(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	states, err := f.people.d.States.FleetSources.States(ctx, []string{source.UID})
	if err != nil {
		return nil, wire.Error(err)
	}
	if held := states[source.UID].HeldDigest; held == "" || held != req.GetDigest() {
		return nil, rpcerr.Field("digest", "does not identify the removals that are held now; read the status again")
	}
	return &fleetv1.ConfirmFleetSourceResponse{}, wire.Error(f.people.d.States.FleetSources.Confirm(ctx, source.UID, req.GetDigest()))
}

// ListFleetSourceDocuments implements FleetSourceServiceHandler. A page's token is the place of its last
// document.
func (f *FleetSources) ListFleetSourceDocuments(
	ctx context.Context, req *fleetv1.ListFleetSourceDocumentsRequest,
) (*fleetv1.ListFleetSourceDocumentsResponse, error) {
	source, err := f.permitted(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	after, limit, err := pageOf(req.GetPage())
	if err != nil {
		return nil, err
	}
	documents, err := f.people.d.States.FleetSources.Documents(ctx, source.UID)
	if err != nil {
		return nil, wire.Error(err)
	}
	slices.SortStableFunc(documents, func(a, b fleetsync.Document) int {
		return cmp.Or(urgency(a)-urgency(b), cmp.Compare(a.Position, b.Position), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	from, _ := strconv.Atoi(after) // zero for the first page
	documents = documents[min(max(from, 0), len(documents)):]
	res := &fleetv1.ListFleetSourceDocumentsResponse{}
	if len(documents) > limit {
		documents = documents[:limit]
		res.NextPageToken = pageToken(strconv.Itoa(max(from, 0) + limit))
	}
	res.Documents = wire.Each(documents, codec.FleetSourceDocumentMessage)
	return res, nil
}

// urgency orders documents for people: problems, what changed, and the rest.
func urgency(d fleetsync.Document) int {
	switch d.Action {
	case fleetsync.ActionFailed, fleetsync.ActionConflict, fleetsync.ActionHeld:
		return 0
	case fleetsync.ActionCreated, fleetsync.ActionConfigured, fleetsync.ActionRemoved:
		return 1
	case fleetsync.ActionKept, fleetsync.ActionUnchanged:
	}
	return 2
}

// permitted returns a fleet source for which the caller has the call's permission.
func (f *FleetSources) permitted(ctx context.Context, name string) (*catalog.FleetSource, error) {
	record, err := f.people.permitted(ctx, catalog.KindFleetSource, "name", name)
	if err != nil {
		return nil, err
	}
	source, ok := record.Object.(*catalog.FleetSource)
	if !ok {
		return nil, wire.Error(&catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindFleetSource, Name: name}})
	}
	return source, nil
}

// fleetSourcesShown returns the messages of fleet sources with what they did.
func (s *Service) fleetSourcesShown(ctx context.Context, records []fleet.Record) ([]*fleetv1.FleetSource, error) {
	uids := make([]string, len(records))
	for i, record := range records {
		uids[i] = record.Object.Meta().UID
	}
	states, err := s.d.States.FleetSources.States(ctx, uids)
	if err != nil {
		return nil, wire.Error(err)
	}
	shown := codec.Messages[*fleetv1.FleetSource](records)
	for i, record := range records {
		shown[i].Status = codec.FleetSourceStatusMessage(states[uids[i]])
		if source, ok := record.Object.(*catalog.FleetSource); ok {
			suspension := source.Spec.Suspension()
			shown[i].Status.SuspensionEnded = suspension.IsSet && !suspension.At(catalog.Now())
		}
	}
	return shown, nil
}

// SamePublic reports whether two objects differ in nothing that people read: in secrets at most.
func SamePublic(a, b catalog.Object) bool {
	x, y := codec.Show(&fleet.Record{Object: withoutVersion(a)}), codec.Show(&fleet.Record{Object: withoutVersion(b)})
	return x != nil && y != nil && proto.Equal(x, y)
}

// withoutVersion returns a copy without what every edit changes.
func withoutVersion(object catalog.Object) catalog.Object {
	shown := catalog.WithoutAuthors(object)
	meta := shown.Meta()
	meta.ResourceVersion, meta.Generation, meta.CreatedAt, meta.UpdatedAt = 0, 0, time.Time{}, time.Time{}
	return shown
}

// FleetSourceAuthority decides about the edits of fleet sources. It is safe for concurrent use.
type FleetSourceAuthority struct{ View *fleet.View }

var _ fleetsync.Authority = FleetSourceAuthority{}

// Guard implements fleetsync.Authority. The source cannot be the subject of a binding: it holds the
// one role that its spec gives it, as a person would by a binding.
func (a FleetSourceAuthority) Guard(source *catalog.FleetSource) catalog.Guard {
	binding := &catalog.AccessBinding{Metadata: catalog.Metadata{Name: "fleetsource"}, Spec: source.Rights()}
	binding.Spec.Users = []string{""}
	return guard{&caller{view: a.View, rights: authz.NewRights(a.View.Catalog, "", nil, []*catalog.AccessBinding{binding}, time.Now())}}
}

// FleetDocuments reads documents of fleet sources.
type FleetDocuments struct{}

var _ fleetsync.Parser = FleetDocuments{}

// Parse implements fleetsync.Parser. Documents that name no project are of the source's.
func (FleetDocuments) Parse(source *catalog.FleetSource, file string, content io.Reader, budget *int) []fleetsync.Item {
	documents, err := document.ParseWithin(file, content, budget)
	if err != nil {
		return problemsOf(file, err)
	}
	project := objectname.Project(source.Name)
	items := make([]fleetsync.Item, len(documents))
	for i, d := range documents {
		if metadata := document.Metadata(d.Object); metadata.GetProject() == "" && project != objectname.Default && catalog.Kind(d.Kind).InProject() {
			metadata.Project = project
		}
		locate := locator(d)
		object, err := codec.Read(d.Object)
		if err != nil {
			at, message := locate(fielderr.Within("documents[0]", err))
			items[i] = fleetsync.Item{Position: cmp.Or(at, d.Start.String()), Problem: message}
			continue
		}
		items[i] = fleetsync.Item{Position: d.Start.String(), Object: object, Locate: locate}
	}
	return items
}

// problemsOf returns an item for each problem of a file, the first few of many.
func problemsOf(file string, err error) []fleetsync.Item {
	const most = 10
	problems, ok := errors.AsType[document.Problems](err)
	if !ok {
		return []fleetsync.Item{{Position: file, Problem: err.Error()}}
	}
	var items []fleetsync.Item
	for _, p := range problems[:min(len(problems), most)] {
		message := p.Message
		if p.Field != "" {
			message = p.Field + ": " + message
		}
		items = append(items, fleetsync.Item{Position: p.Position.String(), Problem: message})
	}
	return items
}

// locator returns a function that returns the position and the text of an error about a document, which
// was the only one of its request.
func locator(d *document.Document) func(error) (position, message string) {
	return func(err error) (string, string) {
		path, message := "", strings.TrimPrefix(err.Error(), "documents[0]: ")
		if e, ok := errors.AsType[*fielderr.Error](err); ok {
			path, message = e.Path, e.Message
		} else if e, ok := errors.AsType[*catalog.ReferenceError](err); ok {
			_, message, _ = strings.Cut(e.Error(), ": ")
			path = e.Path
		}
		at, field, ok := document.Locate([]*document.Document{d}, path)
		if !ok {
			return "", message
		}
		return at.String(), strings.TrimPrefix(field+": "+message, ": ")
	}
}
