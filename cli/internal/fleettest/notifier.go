// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
)

// notifiers is a NotifierService whose receivers take every message. Each notifier has one dead letter.
type notifiers struct {
	fleetv1connect.UnimplementedNotifierServiceHandler
	hub *Hub
}

// TestNotifier implements NotifierServiceHandler.
func (n notifiers) TestNotifier(_ context.Context, request *fleetv1.TestNotifierRequest) (*fleetv1.TestNotifierResponse, error) {
	object, err := n.hub.get("notifier", request.GetName())
	isTaken := !object.GetNotifier().GetSpec().GetSuspended()
	answer := "200 OK"
	if !isTaken {
		answer = "the receiver answered 404 Not Found"
	}
	return &fleetv1.TestNotifierResponse{Id: "AAAA", Accepted: isTaken, Answer: answer}, err
}

// ListDeadLetters implements NotifierServiceHandler.
func (n notifiers) ListDeadLetters(_ context.Context, request *fleetv1.ListDeadLettersRequest) (*fleetv1.ListDeadLettersResponse, error) {
	_, err := n.hub.get("notifier", request.GetName())
	return &fleetv1.ListDeadLettersResponse{DeadLetters: []*fleetv1.DeadLetter{{
		Id: "DEAD", Kind: "service.failed", Count: 3, Time: &timestamppb.Timestamp{Seconds: 1_790_000_000}, Text: "Leat: 3 services failed",
		Error: "the receiver answered 410 Gone", Attempts: 1,
	}}}, err
}

// ResendNotifier implements NotifierServiceHandler.
func (n notifiers) ResendNotifier(_ context.Context, request *fleetv1.ResendNotifierRequest) (*fleetv1.ResendNotifierResponse, error) {
	_, err := n.hub.get("notifier", request.GetName())
	return &fleetv1.ResendNotifierResponse{Count: max(int32(len(request.GetIds())), 1)}, err
}
