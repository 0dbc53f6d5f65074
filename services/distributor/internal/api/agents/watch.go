// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// reconnectAfter is the base delay, with heavy jitter, that a stopping replica sends to its agents, so that the
	// other replicas are not flooded.
	reconnectAfter = 3 * time.Second
	// seatRetry is when to try again after a cluster held too many streams: dead ones end within a
	// minute.
	seatRetry = 15 * time.Second
	// stayAtLeast is how long an agent stays at a replica that is cut off. If all of them are, agents go around slowly.
	stayAtLeast = 30 * time.Second
	// pauseForService is how long the next change of a plan waits for each service in it: what a hub and an agent do with
	// a change grows with the plan, by some hundredth of a millisecond for a service.
	pauseForService = 250 * time.Microsecond
	// longestPause bounds the wait, whatever the plan's size.
	longestPause = time.Second
)

// WatchPlan implements DistributorService.
//
// It waits in Run for days, once for each agent, and its goroutine keeps the stack for as long. Go halves a stack of
// which less than a quarter is in use: so what needs much stack is in openPlan, which has returned by then.
func (s *Service) WatchPlan(ctx context.Context, req *distributorv1.WatchPlanRequest, stream *connect.ServerStream[distributorv1.WatchPlanResponse]) error {
	opened, err := s.openPlan(ctx, req, stream)
	if err != nil {
		return err
	}
	defer opened.close()
	return opened.Run(ctx)
}

// openPlan begins a stream, and sends its first message. The caller closes what it returns.
func (s *Service) openPlan(
	ctx context.Context, req *distributorv1.WatchPlanRequest, stream *connect.ServerStream[distributorv1.WatchPlanResponse],
) (*openedPlan, error) {
	began := time.Now()
	cluster, id, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := s.seat(cluster)
	if err != nil {
		return nil, err
	}
	opened, hasBegun := &openedPlan{closers: [...]func(){leave, nil, nil}}, false
	defer func() {
		if !hasBegun {
			opened.close()
		}
	}()
	if err := s.d.View.CatchUp(ctx, cluster.Name, req.GetKnownVersion()); err != nil {
		return nil, behind(err)
	}
	if fleet.IsUndecided(s.d.View, cluster.Name) {
		return nil, undecided()
	}
	// The watcher comes first, so that no change falls between the current plan and later ones.
	w := s.d.Plans.Watch(cluster.Name)
	opened.closers[1], opened.closers[2] = w.Close, s.d.View.Presence.Opened(cluster)
	out := &planStream{s: s, stream: stream, cluster: cluster, identityUID: id.UID, deltas: req.GetAcceptDelta(), sent: req.GetKnownVersion()}
	if out.deltas {
		out.base, _ = s.d.View.Recent(cluster.Name, out.sent)
	}
	if err := out.update(ctx); err != nil {
		return nil, err
	}
	// The headers go out with the first message, so there is always one.
	if out.sent == req.GetKnownVersion() {
		err = out.heartbeat()
	}
	if err != nil {
		return nil, err
	}
	opened.Stream = wire.Stream{
		Expires: id.Expires,
		Ready:   w.Ready(),
		Changed: func() error {
			w.Take()
			return out.update(ctx)
		},
		Pause: out.pause,
		Beat:  out.heartbeat,
		Leave: func() bool { return s.d.IsCutOff() && time.Since(began) >= stayAtLeast },
		Drain: out.drain,
	}
	hasBegun = true
	return opened, nil
}

// openedPlan is a stream that has begun.
type openedPlan struct {
	wire.Stream

	closers [3]func()
}

// close gives back what the stream has taken, the last first.
func (o *openedPlan) close() {
	for _, undo := range slices.Backward(o.closers[:]) {
		if undo != nil {
			undo()
		}
	}
}

// seat admits a new stream. It checks the cluster's own rate and number of streams before the rate
// that all clusters share. Otherwise one agent that opens and closes streams would use up the
// shared rate.
func (s *Service) seat(cluster *catalog.Cluster) (leave func(), err error) {
	if wait, ok := s.d.Openings.Enter(cluster.UID); !ok {
		return nil, tooOften("the cluster opens streams of its plan too often", wait)
	}
	leave, ok := s.d.Seats.Take(cluster.UID)
	if !ok {
		return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"the cluster holds too many streams of its plan; one is enough, so close the others", rpcerr.RetryAfter(seatRetry))
	}
	if wait, ok := s.d.Streams.Enter(); !ok {
		leave()
		return nil, crowded(wait)
	}
	return leave, nil
}

// planStream is the sending side of one WatchPlan.
type planStream struct {
	s           *Service
	stream      *connect.ServerStream[distributorv1.WatchPlanResponse]
	cluster     *catalog.Cluster
	identityUID string
	// sent is the version that the agent has.
	sent string
	// services is how many services the plan has that the latest update sent; 0: it sent none.
	services int
	// deltas means that the agent can apply deltas; base is then the plan of version sent, nil
	// while that is unknown here.
	deltas bool
	base   *plan.Plan
}

// update sends the plan if the agent has another one, and ends the stream if its identity is no
// longer good. However many changes there were while the agent did not read, the next message leads
// to the latest plan. While derived services may be missing from it, update sends nothing.
func (p *planStream) update(ctx context.Context) error {
	p.services = 0
	if _, err := p.s.d.View.Admit(ctx, p.cluster.Name, p.identityUID); err != nil {
		return admissionError(err)
	}
	current, ok := p.s.d.View.Plan(p.cluster.Name)
	if !ok || current.Version == p.sent || fleet.IsUndecided(p.s.d.View, p.cluster.Name) {
		return nil
	}
	message := changeMessage(p.base, current)
	p.services = len(current.Entries)
	if p.sent = current.Version; p.deltas {
		p.base = current
	}
	return p.stream.Send(message)
}

// pause returns how long the next change waits, which is not at all if the latest update sent nothing. A single change,
// such as that of a commit, is sent at once. When a thousand services become known one after the other, each change by
// itself would cost the agent a look at all of them.
func (p *planStream) pause() time.Duration {
	return min(time.Duration(p.services)*pauseForService, longestPause)
}

// changeMessage makes an agent that has the base, which may be nil, have the current plan.
func changeMessage(base, current *plan.Plan) *distributorv1.WatchPlanResponse {
	if delta := deltaMessage(base, current); delta != nil {
		return &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Delta{Delta: delta}}
	}
	return &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Plan{Plan: planMessage(current)}}
}

func (p *planStream) heartbeat() error {
	return p.stream.Send(&distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Heartbeat{
		Heartbeat: &distributorv1.Heartbeat{Version: p.sent},
	}})
}

func (p *planStream) drain() error {
	return p.stream.Send(&distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Drain{
		Drain: &distributorv1.Drain{ReconnectAfter: durationpb.New(backoff.Jitter(reconnectAfter, 0.9) + p.s.d.Departures.Next())},
	}})
}
