// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"iter"
	"maps"
	"slices"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// Watch implements FleetService. The caller's view can change while they watch: an object that they
// may no longer see is deleted for them.
func (s *Service) Watch(ctx context.Context, req *fleetv1.WatchRequest, stream *connect.ServerStream[fleetv1.WatchResponse]) error {
	c, err := s.person(ctx)
	if err != nil {
		return err
	}
	selection, err := s.watched(ctx, c, req)
	if err != nil {
		return err
	}
	// The watcher comes first, so that no change falls between the current objects and later changes.
	watch := &fleetWatch{
		service: s, caller: c, watchSelection: selection, watcher: selection.watch(s.d.Objects), send: stream.Send,
		shown: map[catalog.Key]struct{}{}, labelChanges: s.d.View.Catalog.LabelChanges(),
	}
	defer watch.watcher.Close()
	if watch.seesAll() {
		watch.shown = nil
	}
	watch.read()
	if err := watch.sendEach(watch.keys(c.scope(catalog.VerbWatch))); err != nil {
		return err
	}
	if err := stream.Send(&fleetv1.WatchResponse{Synced: true}); err != nil {
		return err
	}
	return (&wire.Stream{
		Expires: c.Expires,
		Ready:   watch.watcher.Ready(),
		Changed: watch.changed,
		Beat: func() error {
			if err := watch.renew(ctx); err != nil {
				return err
			}
			return stream.Send(&fleetv1.WatchResponse{})
		},
		Drain: wire.ShuttingDown,
	}).Run(ctx)
}

// watchSelection is the selection of a request to watch. It is immutable.
type watchSelection struct {
	// project selects what belongs to it, and what belongs to the hub; empty: everything.
	project string
	// kind selects objects of one kind; empty: all.
	kind catalog.Kind
	// one selects one object; its zero value: all.
	one catalog.Key
}

// watched returns what a request selects. A service that it names without a cluster is the one that the caller sees now.
func (s *Service) watched(ctx context.Context, c *caller, req *fleetv1.WatchRequest) (watchSelection, error) {
	selection := watchSelection{project: req.GetProject()}
	if err := optionalProject(req.GetProject()); err != nil {
		return selection, wire.Error(err)
	}
	if req.GetKind() == "" {
		if req.GetName() != "" {
			return selection, rpcerr.Field("kind", "is required beside a name")
		}
		return selection, nil
	}
	kind, err := codec.KindOf(req.GetKind())
	if err != nil {
		return selection, wire.Error(err)
	}
	if selection.kind = kind; req.GetName() == "" {
		return selection, nil
	}
	key, err := keyOf(kind, "name", req.GetName())
	if err != nil {
		return selection, wire.Error(err)
	}
	if !isPrecise(key) {
		record, err := s.find(ctx, c, key)
		if err != nil {
			return selection, err
		}
		key = record.Object.Key()
	}
	selection.one = key
	return selection, nil
}

// has reports whether an object is selected.
func (s watchSelection) has(key catalog.Key) bool {
	return (s.one == catalog.Key{} || key == s.one) && (s.kind == "" || key.Kind == s.kind) &&
		(s.project == "" || !key.Kind.InProject() || objectname.Project(key.Name) == s.project)
}

// kinds returns the kinds of objects that can be selected.
func (s watchSelection) kinds() []catalog.Kind {
	if s.kind == "" {
		return catalog.Kinds()
	}
	return []catalog.Kind{s.kind}
}

// watch returns a watcher that notices every change of the selected objects. Whether a repository
// may be watched can change with any service.
func (s watchSelection) watch(objects *fanout.Hub[catalog.Key]) *fanout.Watcher[catalog.Key] {
	if s.one == (catalog.Key{}) || s.one.Kind == catalog.KindRepository {
		return objects.WatchAll()
	}
	return objects.Watch(s.one)
}

// fleetWatch is one stream of Watch. It is for one goroutine.
type fleetWatch struct {
	watchSelection

	service *Service
	caller  *caller
	watcher *fanout.Watcher[catalog.Key]
	send    func(*fleetv1.WatchResponse) error
	// visible reports whether the caller may watch an object, and allows whether their bindings let them;
	// look sets both.
	visible, allows func(catalog.Object) bool
	// shown are the objects that the caller has been sent and that were not deleted for them since. It
	// is nil while the caller may see everything, so that it costs nothing then.
	shown map[catalog.Key]struct{}
	// reading follows the repositories that the caller sees by services. It is nil if their bindings let
	// them watch all repositories, or if the stream selects none.
	reading *reading
	// labelChanges is View.LabelChanges before the latest decision about everything.
	labelChanges uint64
}

// keys returns the keys of the selected objects: of services the ones in a scope.
func (w *fleetWatch) keys(scope *authz.Scope) []catalog.Key {
	if w.one != (catalog.Key{}) {
		return []catalog.Key{w.one}
	}
	return w.service.d.View.Catalog.Keys(w.project, scope)
}

// seesAll reports whether the caller may watch everything that is selected.
func (w *fleetWatch) seesAll() bool {
	return !slices.ContainsFunc(w.kinds(), func(kind catalog.Kind) bool {
		return !w.caller.rights.HoldsEverywhere(catalog.Permission{Verb: catalog.VerbWatch, Resource: catalog.ResourceOf(kind)})
	})
}

// look prepares the decisions about a batch of objects. They count as long as no cluster has other
// labels.
func (w *fleetWatch) look() {
	w.allows = w.caller.allower(catalog.VerbWatch)
	w.visible = w.caller.visibleIf(catalog.VerbWatch, w.allows, w.reading.has)
}

// read prepares the decisions about everything: it visits all services that the caller may watch.
func (w *fleetWatch) read() {
	w.reading = nil
	w.look()
	watchRepositories := catalog.Permission{Verb: catalog.VerbWatch, Resource: catalog.ResourceOf(catalog.KindRepository)}
	if !slices.Contains(w.kinds(), catalog.KindRepository) || w.caller.rights.HoldsEverywhere(watchRepositories) {
		return
	}
	w.reading = newReading(func(repository string) bool {
		return w.has(catalog.Key{Kind: catalog.KindRepository, Name: repository})
	})
	for _, service := range w.service.d.View.Catalog.ServicesWithin(*w.caller.scope(catalog.VerbWatch)) {
		if w.allows(service) {
			w.reading.set(service.Name, service.Spec.Sources)
		}
	}
	w.look()
}

// changed sends what the watcher has noticed.
func (w *fleetWatch) changed() error {
	keys, lagged := w.watcher.Take()
	if lagged {
		return rpcerr.New(connect.CodeOutOfRange, errorsv1.Reason_REASON_RESUME_EXPIRED, "the watcher fell too far behind; watch again from the beginning")
	}
	labelChanges := w.service.d.View.Catalog.LabelChanges()
	rights := w.service.d.View.Accounts().Rights(w.caller.person)
	isMoved := rights.DependsOnLabels() && labelChanges != w.labelChanges
	w.labelChanges = labelChanges
	if isMoved || !rights.Equal(w.caller.rights) {
		w.caller.rights = rights
		if err := w.reconsider(); err != nil {
			return err
		}
	}
	w.look()
	turned := w.readAgain(keys)
	if err := w.sendEach(keys); err != nil {
		return err
	}
	return w.sendTurned(maps.Keys(turned))
}

// readAgain reads services that changed, and returns the repositories that begin or cease to be
// read by that.
func (w *fleetWatch) readAgain(changed []catalog.Key) map[catalog.Key]struct{} {
	turned := map[catalog.Key]struct{}{}
	if w.reading == nil {
		return turned
	}
	for _, key := range changed {
		if key.Kind != catalog.KindService {
			continue
		}
		var sources []catalog.Source
		if service, ok := w.service.d.View.Catalog.Service(key.Name); ok && w.allows(service) {
			sources = service.Spec.Sources
		}
		for _, repository := range w.reading.set(key.Name, sources) {
			turned[catalog.Key{Kind: catalog.KindRepository, Name: repository}] = struct{}{}
		}
	}
	return turned
}

// sendTurned sends the ones among the objects that the caller begins or ceases to see.
func (w *fleetWatch) sendTurned(keys iter.Seq[catalog.Key]) error {
	for key := range keys {
		if !w.has(key) {
			continue
		}
		object, ok := w.service.d.View.Catalog.Object(key)
		_, isShown := w.shown[key]
		if isVisible := ok && w.visible(object); isVisible == isShown {
			continue
		}
		if err := w.sendOne(key); err != nil {
			return err
		}
	}
	return nil
}

// renew checks the caller again: they may have left, be in other groups, or hold other bindings,
// some of which may have ended.
func (w *fleetWatch) renew(ctx context.Context) error {
	c, err := w.service.person(ctx)
	if err != nil {
		return err
	}
	isSame := c.rights.Equal(w.caller.rights) && slices.Equal(c.Groups, w.caller.Groups)
	if w.caller = c; isSame {
		return nil
	}
	return w.reconsider()
}

// reconsider sends the objects that the caller may see now and could not see before, and deletes the
// others for them.
func (w *fleetWatch) reconsider() error {
	w.read()
	if err := w.sendTurned(slices.Values(w.concerned())); err != nil {
		return err
	}
	if w.seesAll() {
		w.shown = nil
	}
	return nil
}

// concerned returns the keys of what the caller has been sent, and of what they may see now.
func (w *fleetWatch) concerned() []catalog.Key {
	if w.shown == nil { // everything so far
		keys := w.keys(nil)
		w.shown = make(map[catalog.Key]struct{}, len(keys))
		for _, key := range keys {
			w.shown[key] = struct{}{}
		}
		return keys
	}
	keys := w.keys(w.caller.scope(catalog.VerbWatch))
	isListed := make(map[catalog.Key]struct{}, len(keys))
	for _, key := range keys {
		isListed[key] = struct{}{}
	}
	for key := range w.shown {
		if _, ok := isListed[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

func (w *fleetWatch) sendEach(keys []catalog.Key) error {
	for _, key := range keys {
		if !w.has(key) {
			continue
		}
		if err := w.sendOne(key); err != nil {
			return err
		}
	}
	return nil
}

// sendOne sends an object as the caller sees it, or that it is gone if they have seen it. An object
// that the caller may not see costs no more than that decision.
func (w *fleetWatch) sendOne(key catalog.Key) error {
	if object, ok := w.service.d.View.Catalog.Object(key); ok && w.visible(object) {
		if w.shown != nil {
			w.shown[key] = struct{}{}
		}
		record := w.caller.shown(w.service.d.View.Records.Describe(object))
		return w.send(&fleetv1.WatchResponse{Document: fleetdoc.Of(codec.Show(&record))})
	}
	if _, isShown := w.shown[key]; !isShown && w.shown != nil {
		return nil
	}
	delete(w.shown, key)
	return w.send(&fleetv1.WatchResponse{Document: nameOnly(key), Deleted: true})
}

// nameOnly returns a document that identifies the object of a key, and nothing else: its metadata,
// and of a service its cluster.
func nameOnly(key catalog.Key) *fleetv1.Document {
	document := fleetdoc.Named(string(key.Kind), codec.MetadataMessage(&catalog.Metadata{Name: key.Name}))
	if service := document.GetService(); service != nil {
		local, cluster := objectname.SplitService(key.Name)
		service.Spec = &fleetv1.ServiceSpec{Cluster: objectname.Format(cluster, objectname.Project(local))}
	}
	return document
}
