// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

const (
	// testEvery and testBurst bound the tests of all notifiers at a replica.
	testEvery = time.Second
	testBurst = 20
	// maxResent bounds the ids of one call, and maxTestAnswer the answer of a receiver.
	maxResent     = 1000
	maxTestAnswer = 1 << 10
)

// Notifiers implements leat.fleet.v1.NotifierService.
type Notifiers struct {
	// people decides who may call.
	people *Service
	tester notify.Tester
	pace   *rate.Limiter
}

var _ fleetv1connect.NotifierServiceHandler = (*Notifiers)(nil)

// NewNotifiers returns the service for notifiers.
func NewNotifiers(people *Service, tester notify.Tester) *Notifiers {
	return &Notifiers{people: people, tester: tester, pace: rate.NewLimiter(rate.Every(testEvery), testBurst)}
}

// TestNotifier implements NotifierServiceHandler.
func (n *Notifiers) TestNotifier(ctx context.Context, req *fleetv1.TestNotifierRequest) (*fleetv1.TestNotifierResponse, error) {
	notifier, err := n.permitted(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	if !n.pace.Allow() {
		return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"too many tests of notifiers at once; try again in a few seconds", rpcerr.RetryAfter(testEvery))
	}
	id, answer, isTaken, err := n.tester.Test(ctx, notifier, catalog.Now())
	if err != nil {
		return nil, wire.Error(err)
	}
	return &fleetv1.TestNotifierResponse{Id: id, Answer: answer[:min(len(answer), maxTestAnswer)], Accepted: isTaken}, nil
}

// ListDeadLetters implements NotifierServiceHandler. A page's token is the id of its last message.
func (n *Notifiers) ListDeadLetters(ctx context.Context, req *fleetv1.ListDeadLettersRequest) (*fleetv1.ListDeadLettersResponse, error) {
	notifier, err := n.permitted(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	after, limit, err := pageOf(req.GetPage())
	if err != nil {
		return nil, err
	}
	items, err := n.people.d.States.Mail.DeadLetters(ctx, notifier.UID)
	if err != nil {
		return nil, wire.Error(err)
	}
	if i := slices.IndexFunc(items, func(item notify.Item) bool { return item.Message.ID == after }); i >= 0 {
		items = items[i+1:]
	}
	res := &fleetv1.ListDeadLettersResponse{}
	if len(items) > limit {
		items = items[:limit]
		res.NextPageToken = pageToken(items[limit-1].Message.ID)
	}
	res.DeadLetters = wire.Each(items, func(item notify.Item) *fleetv1.DeadLetter {
		text, _ := item.Message.Text(ctx, notifier.Spec.Text) // the default text if it cannot be made
		return &fleetv1.DeadLetter{
			Id: item.Message.ID, Kind: string(item.Message.Kind), Count: int32(item.Message.Count), Time: catalogwire.Timestamp(item.Message.Time()),
			Text: text, Error: item.LastError, Attempts: int32(item.Attempts),
		}
	})
	return res, nil
}

// ResendNotifier implements NotifierServiceHandler.
func (n *Notifiers) ResendNotifier(ctx context.Context, req *fleetv1.ResendNotifierRequest) (*fleetv1.ResendNotifierResponse, error) {
	notifier, err := n.permitted(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	if len(req.GetIds()) > maxResent {
		return nil, rpcerr.Field("ids", fmt.Sprintf("has %d items; at most %d are allowed", len(req.GetIds()), maxResent))
	}
	count, err := n.people.d.States.Mail.Resend(ctx, notifier.UID, req.GetIds(), catalog.Now())
	return &fleetv1.ResendNotifierResponse{Count: int32(count)}, wire.Error(err)
}

// permitted returns a notifier for which the caller has the call's permission.
func (n *Notifiers) permitted(ctx context.Context, name string) (*catalog.Notifier, error) {
	record, err := n.people.permitted(ctx, catalog.KindNotifier, "name", name)
	if err != nil {
		return nil, err
	}
	notifier, ok := record.Object.(*catalog.Notifier)
	if !ok {
		return nil, wire.Error(&catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindNotifier, Name: name}})
	}
	return notifier, nil
}

// notifiersShown returns the messages of notifiers with what became of theirs.
func (s *Service) notifiersShown(ctx context.Context, records []fleet.Record) ([]*fleetv1.Notifier, error) {
	uids := make([]string, len(records))
	for i, record := range records {
		uids[i] = record.Object.Meta().UID
	}
	bags, err := s.d.States.Mail.Mailbags(ctx, uids)
	if err != nil {
		return nil, wire.Error(err)
	}
	shown := codec.Messages[*fleetv1.Notifier](records)
	for i := range records {
		bag, status := bags[uids[i]], shown[i].GetStatus()
		status.Waiting, status.Dead, status.Sent, status.Lost = int32(bag.Waiting), int32(bag.Dead), bag.Sent, bag.Lost
		status.LastSentAt, status.LastError, status.LastErrorAt = catalogwire.Timestamp(bag.LastSentAt), bag.LastError, catalogwire.Timestamp(bag.LastErrorAt)
	}
	return shown, nil
}
