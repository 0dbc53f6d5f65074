// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalogwire converts the values of the catalog that are part of more than one protocol:
// in messages of people and agents, and in calls of the distributor to gitcache.
package catalogwire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Timestamp returns the message of a time, or nil for the zero time.
func Timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
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
	return &typev1.Problem{Reason: errorsv1.Reason(p.Reason), Message: p.Message, Since: Timestamp(p.Since)}
}

// ProblemOf returns the problem of a message, or nil for nil.
func ProblemOf(m *typev1.Problem) *catalog.Problem {
	if m == nil {
		return nil
	}
	return &catalog.Problem{Reason: reason.FromNumber(int32(m.GetReason())), Message: m.GetMessage(), Since: TimeOf(m.GetSince())}
}
