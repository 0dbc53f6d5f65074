// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// Procedure is the call in records of changes by fleet sources.
const Procedure = "fleetsource"

const (
	// lookTimeout bounds one look.
	lookTimeout = 5 * time.Minute
	// maxRefused bounds the documents of one commit that are found to be refused. Each costs some
	// twenty transactions, which all fleet sources and people share.
	maxRefused = 100
)

// memory is the result of the last look at a source, for its leader. A look is due when it no
// longer holds.
type memory struct {
	// version is the resource version of the source.
	version int64
	digest  string
	order   Order
	// settled are the resource versions of the objects that documents describe, and zero for documents
	// that could not be applied or are not to be.
	settled map[catalog.Key]int64
	// at is when the look ended, and isWhole is set if nothing was left to be done.
	at      time.Time
	isWhole bool
	// failures counts looks in a row that could not read the source.
	failures int
	// retryAt is when to look again after one.
	retryAt time.Time
	state   State
}

// looker reads sources for one term.
type looker struct {
	p    Params
	term int64
}

// look reads a source, stores the outcome and returns what to remember. The error is the store's,
// the catalog's, or the context's.
func (l *looker) look(ctx context.Context, source *catalog.FleetSource, last memory, order Order) (memory, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	next := memory{version: source.ResourceVersion, order: order, state: last.state}
	answer, err := l.p.Upstream.Resolve(ctx, source.Spec.Source)
	if err != nil {
		return l.unread(ctx, source, last, order, err)
	}
	next.digest = answer.Snapshot.Digest.String()
	if l.isSettled(source, last, next) {
		last.at, last.failures = time.Now(), 0
		return last, nil
	}
	items, err := read(ctx, l.p.Bundles, l.p.Parser, source, answer.Snapshot)
	if err != nil {
		return l.unread(ctx, source, last, order, err)
	}
	run := run{looker: l, source: source, order: order, commit: answer.Snapshot.Commit, editor: l.editor(source), settled: map[catalog.Key]int64{}}
	ctx = catalog.WithOrigin(ctx, run.origin())
	err = run.apply(ctx, items)
	if err == nil {
		err = run.remove(ctx)
	}
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = &contentError{fmt.Sprintf("to apply the documents took more than %s; divide the folder among several fleet sources", lookTimeout)}
		return l.unread(ctx, source, last, order, err) // other sources continue
	}
	if errors.Is(err, catalog.ErrManagerChanged) {
		return memory{state: last.state}, l.p.Fleet.Refresh(ctx) // the next look goes by what it is now
	}
	if err != nil {
		return next, err
	}
	next.settled, next.at, next.isWhole = run.settled, time.Now(), !run.isBlocked
	next.state = run.state(last.state)
	l.p.Metrics.looked(ctx, next.state.Problem)
	return next, l.p.Store.Save(ctx, l.term, source.UID, next.state, run.documents)
}

// isSettled reports whether a look would find what the last one left.
func (l *looker) isSettled(source *catalog.FleetSource, last, next memory) bool {
	if source.Spec.DryRun || !last.isWhole || last.state.Problem != nil || last.version != next.version || last.digest != next.digest || last.order != next.order {
		return false
	}
	return !l.isDrifted(last)
}

// isDrifted reports whether an object is not as the look left it.
func (l *looker) isDrifted(m memory) bool {
	for key, version := range m.settled {
		if l.p.Fleet.Version(key) != version {
			return true
		}
	}
	return false
}

// unread remembers that the source could not be read, and leaves everything as it is.
func (l *looker) unread(ctx context.Context, source *catalog.FleetSource, last memory, order Order, err error) (memory, error) {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return last, context.Cause(ctx)
	}
	problem := &catalog.Problem{Reason: reason.FleetSourceDocuments, Message: bounded(err.Error()), Since: catalog.Now()}
	var retry time.Duration
	if failure, ok := errors.AsType[*resolve.Failure](err); ok {
		problem.Reason, problem.Message, retry = failure.Reason, bounded(failure.Message), failure.RetryAfter
	} else if _, ok := errors.AsType[*contentError](err); !ok {
		problem.Reason = reason.BundleUnavailable
	}
	if was := last.state.Problem; was != nil && was.Reason == problem.Reason {
		problem.Since = was.Since
	}
	next := last
	next.version, next.order, next.isWhole = source.ResourceVersion, order, false
	next.failures, next.at = last.failures+1, time.Now()
	next.retryAt = next.at.Add(max(retry, retryPolicy.Delay(last.failures)))
	isNews := last.state.Problem == nil || *last.state.Problem != *problem || last.state.Asked != order.Asked
	next.state.Problem, next.state.Asked = problem, order.Asked
	l.p.Metrics.looked(ctx, problem)
	if !isNews {
		return next, nil
	}
	return next, l.p.Store.Save(context.WithoutCancel(ctx), l.term, source.UID, next.state, nil)
}

// editor returns the editor for the source's objects.
func (l *looker) editor(source *catalog.FleetSource) *catalog.Editor {
	return l.p.Editor(l.p.Store.Fenced(l.term)).Under(l.p.Authority.Guard(source)).
		ManagedAs(catalog.Manager{Source: source.Ref(), Version: source.ResourceVersion, Adopt: source.Spec.Adopt})
}

// run is one reading of a source that could be read.
type run struct {
	*looker
	source *catalog.FleetSource
	order  Order
	commit string
	editor *catalog.Editor
	// documents holds the outcome of each, and settled the versions of the objects that equal them.
	documents []Document
	settled   map[catalog.Key]int64
	// desired are the objects that documents describe, valid or not.
	desired map[catalog.Key]struct{}
	managed int
	// refusals counts the documents that the catalog refused.
	refusals int
	// isPartial is set if something could not be read, and isBlocked if anything is left to be done.
	isPartial, isBlocked bool
	held                 removals
}

func (r *run) origin() catalog.Origin {
	return catalog.Origin{
		Subject: Subject(r.source.Name), SubjectUID: r.source.UID, Procedure: Procedure, Reason: "commit " + r.commit,
	}
}

// Subject returns what records call a fleet source.
func Subject(source string) string { return "fleetsource:" + objectname.Display(source) }

// apply applies the valid items, and notes what becomes of all.
func (r *run) apply(ctx context.Context, items []Item) error {
	r.desired = make(map[catalog.Key]struct{}, len(items))
	var valid []Item
	for _, item := range items {
		if item.Object != nil {
			r.desired[item.Object.Key()] = struct{}{}
		}
		switch {
		case item.Problem != "":
			r.isPartial = r.isPartial || item.Object == nil
			r.note(documentOf(item, ActionFailed, item.Problem))
		case item.Object != nil:
			valid = append(valid, item)
		}
	}
	slices.SortStableFunc(valid, func(a, b Item) int {
		x, y := a.Object.Key(), b.Object.Key()
		return cmp.Or(rank(x.Kind)-rank(y.Kind), cmp.Compare(x.Name, y.Name))
	})
	for batch := range slices.Chunk(valid, catalog.MaxDocuments) {
		if err := r.applyBatch(ctx, batch); err != nil {
			return err
		}
	}
	if r.source.Spec.DryRun {
		return nil
	}
	r.p.Upstream.Push()
	return r.p.Fleet.Refresh(ctx)
}

// applyBatch applies items in one transaction. If it is refused, so that at least one of them is, halves
// of it are applied until that one is found.
func (r *run) applyBatch(ctx context.Context, batch []Item) error {
	objects := make([]catalog.Object, len(batch))
	for i, item := range batch {
		objects[i] = item.Object
	}
	outcomes, err := r.editor.Apply(ctx, objects, r.source.Spec.DryRun)
	switch {
	case err != nil && isOfStore(ctx, err):
		return err
	case err == nil:
		for i, outcome := range outcomes {
			r.applied(batch[i], outcome)
		}
		return nil
	case len(batch) == 1:
		r.refused(batch[0], err)
		return nil
	case r.refusals >= maxRefused:
		for _, item := range batch {
			r.note(documentOf(item, ActionFailed, fmt.Sprintf("waits, because %s of the commit %s refused; correct that first", amount.Of(r.refusals, "other document"), amount.Are(r.refusals))))
		}
		return nil
	}
	half := len(batch) / 2
	if err := r.applyBatch(ctx, batch[:half]); err != nil {
		return err
	}
	return r.applyBatch(ctx, batch[half:])
}

// isOfStore reports whether an error is not about the documents.
func isOfStore(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, election.ErrDeposed) || errors.Is(err, catalog.ErrUnavailable) || errors.Is(err, catalog.ErrUnrecorded) || errors.Is(err, catalog.ErrUndecided) ||
		errors.Is(err, catalog.ErrManagerChanged)
}

func (r *run) applied(item Item, outcome catalog.Outcome) {
	action := map[catalog.Action]Action{
		catalog.ActionUnchanged: ActionUnchanged, catalog.ActionCreated: ActionCreated, catalog.ActionConfigured: ActionConfigured,
	}[outcome.Action]
	r.note(documentOf(item, action, ""))
	if !r.source.Spec.DryRun {
		r.settled[item.Object.Key()] = outcome.Object.Meta().ResourceVersion
	}
}

// refused notes a document that the catalog refuses.
func (r *run) refused(item Item, err error) {
	r.isBlocked = true
	r.refusals++
	if e, ok := errors.AsType[*catalog.ManagedError](err); ok {
		r.note(documentOf(item, ActionConflict, fmt.Sprintf("%s, and %s has a document for it, too; remove one of the two", e.Error(), catalog.ManagerText(r.source.Name))))
		return
	}
	if e, ok := errors.AsType[*catalog.DiffersError](err); ok {
		r.note(documentOf(item, ActionConflict, e.Error()+"; set spec.adopt of the fleet source, or make the two equal"))
		return
	}
	position, message := item.Locate(err)
	document := documentOf(item, ActionFailed, cmp.Or(message, err.Error()))
	document.Position = cmp.Or(position, document.Position)
	r.note(document)
}

// remove removes what the source manages and no document describes.
func (r *run) remove(ctx context.Context) error {
	managed := r.p.Fleet.Managed(r.source.Ref())
	r.managed = len(managed)
	keys := make([]catalog.Key, len(managed))
	for i, object := range managed {
		keys[i] = object.Key()
	}
	r.held = judge(r.source, keys, r.desired, r.isPartial, r.order.Confirmed)
	for _, key := range r.held.kept {
		r.note(Document{Kind: key.Kind, Name: objectname.Display(key.Name), Action: ActionKept, Message: r.held.keptWhy})
	}
	for _, key := range r.held.held {
		r.isBlocked = true
		r.note(Document{Kind: key.Kind, Name: objectname.Display(key.Name), Action: ActionHeld, Message: r.held.heldWhy})
	}
	for _, key := range r.held.due {
		document := Document{Kind: key.Kind, Name: objectname.Display(key.Name), Action: ActionRemoved}
		if !r.source.Spec.DryRun {
			_, err := r.editor.Delete(ctx, key)
			switch {
			case err != nil && isOfStore(ctx, err):
				return err
			case err != nil && !errors.Is(err, catalog.ErrNotFound):
				r.isBlocked = true
				document.Action, document.Message = ActionFailed, err.Error()
			default:
				r.managed--
			}
		}
		r.note(document)
	}
	if len(r.held.due) == 0 || r.source.Spec.DryRun {
		return nil
	}
	r.p.Upstream.Push()
	return r.p.Fleet.Refresh(ctx)
}

func (r *run) note(d Document) {
	d.Message = bounded(d.Message)
	if d.Action == ActionFailed {
		r.isBlocked = true
	}
	r.documents = append(r.documents, d)
}

func documentOf(item Item, action Action, message string) Document {
	d := Document{Position: item.Position, Action: action, Message: message}
	if item.Object != nil {
		d.Kind, d.Name = item.Object.Key().Kind, objectname.Display(item.Object.Key().Name)
	}
	return d
}

// state sums the look up.
func (r *run) state(last State) State {
	s := State{Commit: r.commit, LookedAt: catalog.Now(), SucceededAt: last.SucceededAt, Managed: r.managed, Asked: r.order.Asked}
	conflicts := 0
	for _, d := range r.documents {
		switch d.Action {
		case ActionFailed:
			s.Failed++
		case ActionConflict:
			s.Failed++
			conflicts++
		case ActionHeld:
			s.Held++
		case ActionCreated, ActionConfigured, ActionRemoved:
			if r.source.Spec.DryRun {
				s.Pending++
			}
		case ActionUnchanged, ActionKept:
		}
		if d.Position != "" {
			s.Documents++
		}
	}
	s.HeldDigest = r.held.digest
	s.Problem = r.problem(s, conflicts)
	switch {
	case s.Problem == nil && !r.source.Spec.DryRun:
		s.SucceededAt = s.LookedAt
	case s.Problem != nil && last.Problem != nil && last.Problem.Reason == s.Problem.Reason:
		s.Problem.Since = last.Problem.Since
	}
	return s
}

// problem returns the problem for people, or nil.
func (r *run) problem(s State, conflicts int) *catalog.Problem {
	p := &catalog.Problem{Since: s.LookedAt}
	describe := fmt.Sprintf("leat fleetsource status %s lists them", objectname.Display(r.source.Name))
	switch {
	case s.Failed > conflicts:
		p.Reason = reason.FleetSourceDocuments
		p.Message = fmt.Sprintf("%s of commit %.12s cannot be read or applied; %s", amount.Of(s.Failed-conflicts, "document"), r.commit, describe)
	case conflicts > 0:
		p.Reason = reason.FleetSourceConflict
		p.Message = fmt.Sprintf("%s about objects that somebody else manages, or that differ; %s", amount.Of(conflicts, "document"), describe)
	case s.Held > 0:
		p.Reason = reason.FleetSourceHeld
		p.Message = fmt.Sprintf("%s; %s, and leat fleetsource confirm removes them", r.held.heldWhy, describe)
	default:
		return nil
	}
	return p
}

// bounded returns a message of at most maxMessage bytes.
func bounded(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}
