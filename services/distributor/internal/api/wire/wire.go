// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire is what the distributor's APIs share: the messages that more than one audience is
// sent or sends, the errors, and the clock of streams. A function named XMessage returns the
// message of a value, one named XOf the value of a message.
//
// What agents send is cut to bounds and corrected, but not refused: what became of the services is
// worth more than what is wrong with the rest of a report.
package wire

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Each converts each item of a list. It returns nil for an empty list.
func Each[A, B any](list []A, convert func(A) B) []B {
	var all []B
	for _, item := range list {
		all = append(all, convert(item))
	}
	return all
}

// first returns the first items of a list, n at most.
func first[A any](list []A, n int) []A { return list[:min(len(list), n)] }

// Timestamp returns the message of a time, or nil for the zero time.
func Timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Duration returns the message of a duration, or nil for zero.
func Duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// TimeOf returns the time of a message with the precision of the store, or the zero time for nil.
func TimeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime().UTC().Truncate(time.Microsecond)
}

// ProblemMessage returns the message of a problem, or nil for nil.
func ProblemMessage(p *catalog.Problem) *typev1.Problem {
	if p == nil {
		return nil
	}
	return &typev1.Problem{
		Reason:  errorsv1.Reason(errorsv1.Reason_value["REASON_"+string(p.Reason)]),
		Message: p.Message,
		Since:   Timestamp(p.Since),
	}
}

func problemOf(p *typev1.Problem) *catalog.Problem {
	if p == nil {
		return nil
	}
	return &catalog.Problem{
		Reason:  catalog.Reason(strings.TrimPrefix(p.GetReason().String(), "REASON_")),
		Message: p.GetMessage(),
		Since:   TimeOf(p.GetSince()),
	}
}
