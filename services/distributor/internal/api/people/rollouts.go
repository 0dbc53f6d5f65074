// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxTells bounds the attempts of one call on a rollout that changes all the time.
const maxTells = 10

// Rollouts implements leat.fleet.v1.RolloutService.
type Rollouts struct {
	// people decides who may call.
	people *Service
	pins   catalog.Pins
}

var _ fleetv1connect.RolloutServiceHandler = (*Rollouts)(nil)

// NewRollouts returns the service for rollouts.
func NewRollouts(people *Service, pins catalog.Pins) *Rollouts {
	return &Rollouts{people: people, pins: pins}
}

// ListRollouts implements RolloutServiceHandler.
func (r *Rollouts) ListRollouts(ctx context.Context, req *fleetv1.ListRolloutsRequest) (*fleetv1.ListRolloutsResponse, error) {
	c, policy, err := r.seen(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	all, err := r.people.d.States.Rollouts.Runs(ctx, policy.UID)
	if err != nil {
		return nil, wire.Error(err)
	}
	return &fleetv1.ListRolloutsResponse{Rollouts: wire.Each(all, func(of *drive.Outline) *fleetv1.Rollout { return c.rollout(policy, of) })}, nil
}

// maxSkipped bounds the members that one call reads and does not show, because the caller may not see them.
const maxSkipped = 5 * maxPageSize

// GetRollout implements RolloutServiceHandler. A page's token is the place of its last member.
func (r *Rollouts) GetRollout(ctx context.Context, req *fleetv1.GetRolloutRequest) (*fleetv1.GetRolloutResponse, error) {
	c, policy, err := r.seen(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	token, limit, err := pageOf(req.GetPage())
	if err != nil {
		return nil, err
	}
	after, err := memberPlaceOf(token)
	if err != nil {
		return nil, err
	}
	isVisible, skipped, chunk := c.visible(catalog.VerbGet), 0, max(limit, defaultPageSize)+1
	for res := new(fleetv1.GetRolloutResponse); ; {
		of, members, err := r.people.d.States.Rollouts.Page(ctx, policy.UID, req.GetNumber(), after, chunk)
		if err != nil {
			return nil, rolloutError(policy, req.GetNumber(), err)
		}
		res.Rollout = c.rollout(policy, of)
		for _, m := range members {
			if len(res.GetMembers()) == limit || skipped == maxSkipped {
				res.NextPageToken = memberToken(after)
				return res, nil
			}
			after = m.Place
			if service, ok := r.people.d.View.Catalog.Service(m.Name); !ok || !isVisible(service) {
				skipped++
				continue
			}
			res.Members = append(res.Members, codec.RolloutMember(policy, of, m.Progress))
		}
		if len(members) < chunk {
			return res, nil
		}
	}
}

// ControlRollout implements RolloutServiceHandler.
func (r *Rollouts) ControlRollout(ctx context.Context, req *fleetv1.ControlRolloutRequest) (*fleetv1.ControlRolloutResponse, error) {
	verb := rollout.Verb(req.GetVerb())
	switch verb {
	case rollout.Pause, rollout.Resume, rollout.Abort, rollout.Retry, rollout.SkipWave, rollout.Rollback:
	case rollout.Replace:
		return nil, rpcerr.Field("verb", "replace is not for people; it follows from the policy's on_newer")
	default:
		return nil, rpcerr.Field("verb", fmt.Sprintf("%.80q is none of pause, resume, abort, retry, skip-wave and rollback", req.GetVerb()))
	}
	until, err := policywire.End("until", req.GetUntil())
	if err == nil && !until.IsZero() {
		if verb != rollout.Pause {
			err = fielderr.New("until", "has a meaning with pause alone")
		} else {
			err = catalog.CheckEnd("until", until)
		}
	}
	if err != nil {
		return nil, wire.Error(err)
	}
	c, policy, err := r.seen(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	isPause := verb == rollout.Pause || verb == rollout.Resume
	if !c.allows(policy) && (!isPause || !c.may(catalog.VerbPause, policy)) {
		return nil, wire.Error(c.rights.Denied(c.needs(), policy.Key()))
	}
	record, err := r.tell(ctx, policy, string(verb), func(*drive.Record) (rollout.Event, error) {
		return rollout.Event{Kind: rollout.Command, Verb: verb, Person: c.Name, Until: until}, nil
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.ControlRolloutResponse{Rollout: c.rollout(policy, record.Outline())}, nil
}

// ApproveRollout implements RolloutServiceHandler.
func (r *Rollouts) ApproveRollout(ctx context.Context, req *fleetv1.ApproveRolloutRequest) (*fleetv1.ApproveRolloutResponse, error) {
	c, policy, err := r.seen(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	isMember := policy.HasApprover(c.Groups) && c.rights.LimitAllows(c.needs(), authz.ObjectOf(c.view.Catalog, policy))
	if !isMember && !c.allows(policy) {
		return nil, wire.Error(c.rights.Denied(c.needs(), policy.Key()))
	}
	record, err := r.tell(ctx, policy, catalog.VerbApprove, func(record *drive.Record) (rollout.Event, error) {
		e := rollout.Event{Kind: rollout.Approve, Wave: cmp.Or(req.GetWave(), record.Run.Current()), Person: c.Name}
		groups := record.ApproversOf(e.Wave)
		switch {
		case len(groups) == 0 && !c.allows(policy): // of a group that approves another wave
			return e, wire.Error(c.rights.Denied(c.needs(), policy.Key()))
		case len(groups) > 0 && !slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(c.Groups, group) }):
			return e, wire.Denied(fmt.Sprintf("wave %.80q is approved by members of these groups alone: %v", e.Wave, groups))
		}
		return e, nil
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.ApproveRolloutResponse{Rollout: c.rollout(policy, record.Outline())}, nil
}

// ReplayRollout implements RolloutServiceHandler.
func (r *Rollouts) ReplayRollout(ctx context.Context, req *fleetv1.ReplayRolloutRequest) (*fleetv1.ReplayRolloutResponse, error) {
	_, policy, err := r.seen(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	log, err := r.people.d.States.Rollouts.Log(ctx, policy.UID, req.GetNumber())
	if err != nil {
		return nil, rolloutError(policy, req.GetNumber(), err)
	}
	return &fleetv1.ReplayRolloutResponse{Events: int64(len(log.Events)), Decisions: int64(len(log.Decisions)), Difference: log.Replay()}, nil
}

// seen returns a policy that the caller may see, which is all that reading its rollouts needs.
// Calls that change something decide on top of it.
func (r *Rollouts) seen(ctx context.Context, name string) (*caller, *catalog.RolloutPolicy, error) {
	c, record, err := r.people.seen(ctx, catalog.KindRolloutPolicy, "name", name)
	if err != nil {
		return nil, nil, err
	}
	policy, ok := record.Object.(*catalog.RolloutPolicy)
	if !ok {
		return nil, nil, wire.NotFound(catalog.Key{Kind: catalog.KindRolloutPolicy, Name: name})
	}
	return c, policy, nil
}

// rollout returns a rollout without its members, with its authors if the caller may approve it or edit the policy.
func (c *caller) rollout(policy *catalog.RolloutPolicy, of *drive.Outline) *fleetv1.Rollout {
	m := codec.RolloutMessage(policy, of)
	m.Why, m.WaitsFor = of.Run.Says(c.cause()), codec.WaitsFor(&of.Run, c.cause())
	if policy.HasApprover(c.Groups) || c.may(catalog.VerbApprove, policy) || c.may(catalog.VerbUpdate, policy) {
		m.Authors = of.Run.Candidate.Authors
	}
	return m
}

// cause returns a function that shows a member by its name, with why it failed if the caller may see the service
// and no member before it had a cause.
func (c *caller) cause() func(rollout.Failure) string {
	hasCause := false
	return func(f rollout.Failure) string {
		name := objectname.Display(f.Name)
		if hasCause || f.Why == "" {
			return name
		}
		service, ok := c.view.Catalog.Service(f.Name)
		if !ok || !c.visible(catalog.VerbGet)(service) {
			return name
		}
		hasCause = true
		return name + " (" + f.Why + ")"
	}
}

// rolloutError returns err as callers see it; number is the rollout's that they asked for, or 0 for
// the latest.
func rolloutError(policy *catalog.RolloutPolicy, number int64, err error) error {
	if refused, ok := errors.AsType[*rollout.RefusedError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_ROLLOUT_REFUSED, refused.Message)
	}
	if author, ok := errors.AsType[*rollout.AuthorError](err); ok {
		return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ROLLOUT_BY_AUTHOR, author.Error())
	}
	if errors.Is(err, drive.ErrNotFound) {
		return noRollout(objectname.Display(policy.Name), number)
	}
	if errors.Is(err, drive.ErrMoved) {
		return wire.Error(catalog.ErrConflict)
	}
	return wire.Error(err)
}

// noRollout distinguishes a policy without a rollout from a number that no rollout of it has. The
// policy exists, so its name is right.
func noRollout(policy string, number int64) error {
	message := fmt.Sprintf("rolloutpolicy %q has had no rollout yet; one begins when a service that it covers changes", policy)
	if number != 0 {
		message = fmt.Sprintf("rolloutpolicy %q has no rollout %d; \"leat rollout list %s\" lists those it has", policy, number, policy)
	}
	return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_NOT_FOUND, message)
}

// tell has the latest rollout of a policy take a person's event. The replica that drives rollouts may
// write at the same time: then the rollout is read again.
func (r *Rollouts) tell(
	ctx context.Context, policy *catalog.RolloutPolicy, verb string, eventOf func(*drive.Record) (rollout.Event, error),
) (*drive.Record, error) {
	var err error
	for range maxTells {
		record, findErr := r.people.d.States.Rollouts.Find(ctx, policy.UID, 0)
		if findErr != nil {
			return nil, rolloutError(policy, 0, findErr)
		}
		e, eventErr := eventOf(record)
		if eventErr != nil {
			return nil, eventErr
		}
		e.At, e.Reason = catalog.Now(), catalog.OriginOf(ctx).Reason
		step, refusal := record.Follow(e)
		if refusal != nil {
			return nil, rolloutError(policy, 0, refusal)
		}
		err = r.people.d.States.Rollouts.Tell(ctx, catalog.Change{Verb: verb, Kind: string(catalog.KindRolloutPolicy), Name: policy.Name, UID: policy.UID}, step)
		if err == nil {
			return step.Record, nil
		}
		if !errors.Is(err, drive.ErrMoved) {
			break
		}
	}
	return nil, rolloutError(policy, 0, err)
}

// policiesShown returns the messages of policies with their latest rollouts, as the caller may see
// them.
func (s *Service) policiesShown(ctx context.Context, c *caller, records []fleet.Record) ([]*fleetv1.RolloutPolicy, error) {
	latest, err := s.d.States.Rollouts.Latest(ctx)
	if err != nil {
		return nil, wire.Error(err)
	}
	covered, held := fleet.Rollouts{View: s.d.View}.Count()
	shown := codec.Messages[*fleetv1.RolloutPolicy](records)
	for i, record := range records {
		policy, ok := record.Object.(*catalog.RolloutPolicy)
		if !ok {
			continue
		}
		shown[i].Status.Services, shown[i].Status.TakenOver = int32(covered[policy.UID]), int32(held[policy.UID])
		if message := problems.TooLarge(covered[policy.UID]); message != "" {
			shown[i].Status.Problem = &typev1.Problem{Reason: errorsv1.Reason_REASON_ROLLOUT_TOO_LARGE, Message: message}
		}
		if of := latest[policy.UID]; of != nil {
			shown[i].Status.Latest = c.rollout(policy, of)
		}
	}
	return shown, nil
}

// RollbackService implements RolloutServiceHandler.
func (r *Rollouts) RollbackService(ctx context.Context, req *fleetv1.RollbackServiceRequest) (*fleetv1.RollbackServiceResponse, error) {
	c, service, err := r.service(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	until, err := endOfPin(req.GetUntil())
	if err != nil {
		return nil, wire.Error(err)
	}
	revisions, err := r.people.d.History.Revisions(ctx, service.UID)
	if err != nil {
		return nil, wire.Error(err)
	}
	revision, ok := wantedRevision(revisions, req.GetRevision())
	if !ok {
		return nil, unavailable("the history of the service has no such revision; leat history shows it")
	}
	content, err := r.contentOf(ctx, service, revision)
	if err != nil {
		return nil, err
	}
	pin := &catalog.Pin{Revision: revision.Number, Content: content, By: c.Name, At: catalog.Now(), Reason: catalog.OriginOf(ctx).Reason, Until: until}
	if _, err := r.pins.Pin(ctx, service.UID, service.Name, pin); err != nil {
		return nil, wire.Error(err)
	}
	r.people.follow(ctx)
	return &fleetv1.RollbackServiceResponse{Revision: revision.Number, Commits: revision.Commits}, nil
}

// endOfPin returns when a pin ends; unset is the zero time. The error is a *fielderr.Error.
func endOfPin(m *timestamppb.Timestamp) (time.Time, error) {
	until, err := policywire.End("until", m)
	if err != nil || until.IsZero() {
		return until, err
	}
	return until, catalog.CheckEnd("until", until)
}

// ReleaseService implements RolloutServiceHandler.
func (r *Rollouts) ReleaseService(ctx context.Context, req *fleetv1.ReleaseServiceRequest) (*fleetv1.ReleaseServiceResponse, error) {
	_, service, err := r.service(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	if _, err := r.pins.Pin(ctx, service.UID, service.Name, nil); err != nil {
		return nil, wire.Error(err)
	}
	r.people.follow(ctx)
	return &fleetv1.ReleaseServiceResponse{}, nil
}

// service returns a service for which the caller has the call's permission.
func (r *Rollouts) service(ctx context.Context, name string) (*caller, *catalog.Service, error) {
	c, err := r.people.person(ctx)
	if err != nil {
		return nil, nil, err
	}
	record, err := r.people.permitted(ctx, catalog.KindService, "name", name)
	if err != nil {
		return nil, nil, err
	}
	service, ok := record.Object.(*catalog.Service)
	if !ok {
		return nil, nil, wire.NotFound(catalog.Key{Kind: catalog.KindService, Name: name})
	}
	return c, service, nil
}

// wantedRevision returns the revision of that number; 0 is the latest that was healthy, except the
// current one.
func wantedRevision(revisions []catalog.Revision, number int64) (catalog.Revision, bool) {
	for i, revision := range revisions {
		switch {
		case number != 0 && revision.Number == number,
			number == 0 && i > 0 && revision.Outcome == catalog.RevisionHealthy && !slices.Equal(revision.Digests, revisions[0].Digests):
			return revision, true
		}
	}
	return catalog.Revision{}, false
}

func unavailable(message string) error {
	return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_REVISION_UNAVAILABLE, message)
}

// contentOf returns what a service had in a revision. It has the content made again from the commits,
// and compares: a service whose sources were others then cannot go back.
func (r *Rollouts) contentOf(ctx context.Context, service *catalog.Service, revision catalog.Revision) ([]catalog.HeldSource, error) {
	sources := fleet.Rollouts{View: r.people.d.View}.PlannedSpec(service).Sources
	if len(revision.Digests) != len(sources) || len(revision.Commits) != len(sources) {
		return nil, unavailable(fmt.Sprintf("revision %d was made of %s, and the service has %d now", revision.Number, amount.Of(len(revision.Digests), "source"), len(sources)))
	}
	content := make([]catalog.HeldSource, len(sources))
	for i, source := range sources {
		want, err := digest.Parse(revision.Digests[i])
		if err != nil {
			return nil, unavailable(fmt.Sprintf("revision %d names no content that this version knows", revision.Number))
		}
		at := source.Normal()
		if at.Ref = (catalog.Ref{Kind: catalog.RefCommit, Value: revision.Commits[i]}); at.Chart != "" && i < len(revision.Versions) {
			at.Ref = catalog.Ref{Kind: catalog.RefTag, Value: revision.Versions[i]}
		}
		answer, err := r.people.d.Mirrors.Resolve(ctx, at)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, unavailable(fmt.Sprintf("commit %.12s of source %d cannot be had: %v", revision.Commits[i], i+1, err))
		}
		if answer.Snapshot.Digest != want {
			return nil, unavailable(fmt.Sprintf("source %d has another path or repository than in revision %d", i+1, revision.Number))
		}
		snapshot := answer.Snapshot
		if i < len(revision.Versions) {
			snapshot.Version = revision.Versions[i]
		}
		content[i] = catalog.HeldSource{Source: source.Normal(), Snapshot: snapshot}
	}
	return content, nil
}

// memberToken returns the token of the page after a place.
func memberToken(after drive.Place) string {
	return pageToken(fmt.Sprintf("%d/%s", after.Wave, after.UID))
}

// memberPlaceOf returns the place of a token.
func memberPlaceOf(token string) (place drive.Place, err error) {
	if token == "" {
		return place, nil
	}
	wave, uid, _ := strings.Cut(token, "/")
	if place.Wave, err = strconv.ParseInt(wave, 10, 64); err != nil {
		return place, rpcerr.Field("page.token", "is not a token that a listing returned")
	}
	place.UID = uid
	return place, nil
}
