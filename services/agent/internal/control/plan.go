// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/plandelta"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const (
	planFile = "plan.binpb"

	// silence is how long a stream may be quiet: two of the hub's heartbeats and a little.
	silence = 45 * time.Second
	// pollInterval is used if the hub sets no interval; pollJitter spreads it.
	pollInterval = 2 * time.Minute
	pollJitter   = 0.25
)

var errSilent = errors.New("the plan's stream is silent")

// PlanParams are the settings and collaborators of NewPlans.
type PlanParams struct {
	// Dir is the folder of the last plan. Plans contain neither configurations nor secrets.
	Dir string
	// Hub is a client that sends the agent's token.
	Hub      distributorv1connect.DistributorServiceClient
	Identity *Identity
	Logger   *slog.Logger
	// Answers is called when a stream has brought its first message, and after each poll that succeeds: the hub answers.
	// It returns at once. Nil: nothing is called.
	Answers func()
	// Leave makes the next call go to another replica of the hub, if there is one and no call is under way: the one
	// that asks the agent to connect again may keep its connection. Nil: nothing is called.
	Leave func()
	// Reconnect spaces attempts. Zero: 0.5 s doubling to 30 s.
	Reconnect backoff.Policy
}

// Plans follows the cluster's plan.
type Plans struct {
	params PlanParams

	// receive takes each new plan, and returns at once. It is Run's alone.
	receive func(plan.Plan)
	// held is the plan as it came, to which deltas apply; nil before the first. It is Run's alone.
	held *distributorv1.Plan
	// isDoubted is set from the first message that does not match until the next whole plan. The
	// agent accepts no deltas meanwhile. Only Run uses it.
	isDoubted bool

	// isFailing is set while the latest call has failed, which was logged. Only Run uses it.
	isFailing bool

	mu     sync.Mutex
	pinned map[digest.Digest]bool // bundles that the plan names; nil before the first plan
}

// NewPlans returns Plans that do nothing before Run.
func NewPlans(p PlanParams) *Plans {
	p.Reconnect = cmp.Or(p.Reconnect, backoff.Policy{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Multiplier: 2})
	if p.Answers == nil {
		p.Answers = func() {}
	}
	if p.Leave == nil {
		p.Leave = func() {}
	}
	return &Plans{params: p}
}

// Pinned reports whether the plan names a bundle, which must then stay on disk.
func (p *Plans) Pinned(d digest.Digest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pinned[d]
}

// Ready returns nil once there is a plan, from the hub or from disk.
func (p *Plans) Ready(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pinned == nil {
		return errors.New("no plan received yet")
	}
	return nil
}

// Run passes the plan kept on disk to receive, then every new one, until ctx is done; then it
// returns nil. receive must return at once.
func (p *Plans) Run(ctx context.Context, receive func(plan.Plan)) error {
	p.receive = receive
	p.restore(ctx)
	for attempt := 0; ctx.Err() == nil; attempt++ {
		outcome := p.watch(ctx)
		if outcome.heard && !p.isDoubted {
			attempt = 0
		}
		_ = backoff.Wait(ctx, p.pause(ctx, outcome, attempt)) // the loop's condition sees the end of ctx
		if outcome.drain > 0 {
			p.params.Leave()
		}
	}
	return nil
}

// Fetch asks the hub for the whole plan once, and neither keeps nor delivers it. It is not called beside Run.
func (p *Plans) Fetch(ctx context.Context) (plan.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := p.params.Hub.GetPlan(ctx, &distributorv1.GetPlanRequest{})
	if err != nil {
		return plan.Plan{}, p.params.Identity.checkAnswer(err)
	}
	if response.GetPlan() == nil {
		return plan.Plan{}, errors.New("the hub answered without a plan")
	}
	fetched, err := planOf(response.GetPlan())
	if err != nil {
		return plan.Plan{}, err
	}
	p.pin(fetched)
	return fetched, nil
}

// outcome is how a stream ended.
type outcome struct {
	heard bool          // at least one message arrived
	drain time.Duration // the server asked the agent to reconnect after this
	err   error
	// version is the one that the hub assumes this agent to have.
	version string
}

// pause returns how long to wait before the next stream. After a stream without any message, it
// polls the plan instead.
func (p *Plans) pause(ctx context.Context, o outcome, attempt int) time.Duration {
	switch {
	case ctx.Err() != nil:
		return 0
	case o.drain > 0:
		return backoff.Jitter(o.drain, pollJitter)
	case o.heard:
		return p.params.Reconnect.Delay(attempt)
	}
	interval, err := p.poll(ctx)
	p.note(ctx, err)
	switch {
	case err != nil:
		return p.params.Reconnect.After(rpcerr.Paced(err), attempt)
	case connect.CodeOf(o.err) == connect.CodeUnimplemented:
		return backoff.Jitter(interval, pollJitter) // an intermediary blocks streams, so polling is all that works
	default:
		return p.params.Reconnect.After(rpcerr.Paced(o.err), attempt)
	}
}

// watch reads one stream until it ends.
func (p *Plans) watch(ctx context.Context) (o outcome) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alarm.Stop()
	o.version = p.held.GetVersion()
	stream, err := p.params.Hub.WatchPlan(ctx, &distributorv1.WatchPlanRequest{KnownVersion: o.version, AcceptDelta: !p.isDoubted})
	if err != nil {
		return outcome{err: p.params.Identity.checkAnswer(err)}
	}
	defer stream.Close()
	for stream.Receive() {
		alarm.Reset(silence)
		p.note(ctx, nil)
		if !o.heard {
			o.heard = true
			p.params.Answers()
		}
		if err := p.event(ctx, stream.Msg(), &o); err != nil {
			o.err = p.doubt(ctx, err)
			return o
		}
	}
	o.err = p.params.Identity.checkAnswer(stream.Err())
	return o
}

// event processes one message. It returns an error if the message does not match the held plan.
func (p *Plans) event(ctx context.Context, message *distributorv1.WatchPlanResponse, o *outcome) error {
	switch event := message.GetEvent().(type) {
	case *distributorv1.WatchPlanResponse_Plan:
		o.version = event.Plan.GetVersion()
		p.accept(ctx, event.Plan)
	case *distributorv1.WatchPlanResponse_Delta:
		o.version = event.Delta.GetToVersion()
		return p.acceptDelta(ctx, event.Delta)
	case *distributorv1.WatchPlanResponse_Heartbeat:
		return agree(o.version, event.Heartbeat.GetVersion())
	case *distributorv1.WatchPlanResponse_Drain:
		o.drain = event.Drain.GetReconnectAfter().AsDuration()
	}
	return nil
}

// agree compares the version in a heartbeat with the last sent one. A hub that names no version is
// accepted.
func agree(sent, named string) error {
	if named != "" && named != sent {
		return fmt.Errorf("the heartbeat names version %s, %q was sent last", named, sent)
	}
	return nil
}

// poll requests the plan once, and once more as a whole if a delta does not match.
func (p *Plans) poll(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := p.ask(ctx)
	if err == nil && p.isDoubted {
		response, err = p.ask(ctx)
	}
	if err != nil {
		return 0, p.params.Identity.checkAnswer(err)
	}
	p.params.Answers()
	return cmp.Or(max(response.GetPollInterval().AsDuration(), 0), pollInterval), nil
}

func (p *Plans) ask(ctx context.Context) (*distributorv1.GetPlanResponse, error) {
	response, err := p.params.Hub.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: p.held.GetVersion(), AcceptDelta: !p.isDoubted})
	if err != nil {
		return nil, err
	}
	switch {
	case response.GetPlan() != nil:
		p.accept(ctx, response.GetPlan())
	case response.GetDelta() != nil:
		if err := p.acceptDelta(ctx, response.GetDelta()); err != nil {
			_ = p.doubt(ctx, err)
		}
	}
	return response, nil
}

// doubt makes the next request ask for the whole plan. It still sends the held version, so that the
// hub does not return an older plan. It returns its error.
func (p *Plans) doubt(ctx context.Context, err error) error {
	p.isDoubted = true
	p.params.Logger.WarnContext(ctx, "plan delta does not match the current plan, requesting the whole plan", slog.Any("error", err))
	return err
}

// note logs once that the hub is unreachable, and once that it is back.
func (p *Plans) note(ctx context.Context, err error) {
	changed := p.isFailing != (err != nil)
	p.isFailing = err != nil
	switch {
	case !changed || ctx.Err() != nil:
	case err != nil:
		p.params.Logger.WarnContext(ctx, "hub does not return a plan, continuing with the last one",
			slog.String("reason", strings.TrimPrefix(rpcerr.ReasonOf(err).String(), "REASON_")), slog.Any("error", err))
	default:
		p.params.Logger.InfoContext(ctx, "hub answers again")
	}
}

// accept processes a whole plan. It ignores one that cannot be decoded: the last good plan stays
// valid.
func (p *Plans) accept(ctx context.Context, message *distributorv1.Plan) {
	p.isDoubted = false
	if err := p.take(ctx, message); err != nil {
		p.params.Logger.ErrorContext(ctx, "cannot read plan, keeping the last one", slog.Any("error", err))
	}
}

// acceptDelta applies a delta to the held plan. After an error the held plan stays valid.
func (p *Plans) acceptDelta(ctx context.Context, delta *distributorv1.PlanDelta) error {
	message, err := plandelta.Apply(p.held, delta)
	if err != nil {
		return err
	}
	return p.take(ctx, message)
}

// take delivers a plan and stores it. It returns an error if the plan cannot be decoded, and does
// nothing then.
func (p *Plans) take(ctx context.Context, message *distributorv1.Plan) error {
	plan, err := planOf(message)
	if err != nil {
		return err
	}
	if _, err := policywire.Settings(message.GetSettings()); err != nil {
		p.params.Logger.WarnContext(ctx, "hub's settings are newer than this agent, ignoring unknown ones", slog.Any("error", err))
	}
	p.held = message
	p.deliver(plan)
	if err := p.keep(message); err != nil {
		p.params.Logger.ErrorContext(ctx, "cannot store plan, a restart without the hub would use an older one",
			slog.Any("error", err))
	}
	return nil
}

func (p *Plans) deliver(plan plan.Plan) {
	p.pin(plan)
	p.receive(plan)
}

// pin keeps the bundles of a plan on disk.
func (p *Plans) pin(plan plan.Plan) {
	pinned := map[digest.Digest]bool{}
	for _, service := range plan.Services {
		for _, b := range service.Bundles {
			pinned[b.Digest] = true
		}
	}
	p.mu.Lock()
	p.pinned = pinned
	p.mu.Unlock()
}

func (p *Plans) keep(message *distributorv1.Plan) error {
	content, err := proto.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	return writeFile(filepath.Join(p.params.Dir, planFile), content)
}

// ForgetPlan removes the plan that is stored in a folder. Plans that are opened there later wait
// for the hub.
func ForgetPlan(dir string) error {
	if err := os.Remove(filepath.Join(dir, planFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget plan: %w", err)
	}
	return nil
}

// restore delivers the stored plan if it is this cluster's.
func (p *Plans) restore(ctx context.Context) {
	content, err := os.ReadFile(filepath.Join(p.params.Dir, planFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	message := &distributorv1.Plan{}
	if err == nil {
		err = proto.Unmarshal(content, message)
	}
	plan := plan.Plan{}
	if err == nil {
		plan, err = planOf(message)
	}
	if err != nil {
		p.params.Logger.WarnContext(ctx, "cannot read stored plan, waiting for the hub", slog.Any("error", err))
		return
	}
	if message.GetCluster() == p.params.Identity.Cluster() {
		p.held = message
		p.deliver(plan)
	}
}
