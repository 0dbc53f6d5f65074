// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package policywire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// End returns the end of an exception, such as a pause, in a document. Nil is the zero time: it has
// no end. Times before 1970 are refused: the first moment of the year 1 is the zero time, so it
// would turn an exception that ended into one that never ends. The error is a *fielderr.Error.
func End(field string, m *timestamppb.Timestamp) (time.Time, error) {
	if m == nil {
		return time.Time{}, nil
	}
	if m.CheckValid() != nil || m.GetSeconds() < 0 {
		return time.Time{}, fielderr.New(field, "is not a time after 1970 and before the year 10000")
	}
	return m.AsTime(), nil
}

// EndMessage is the reverse of End.
func EndMessage(end time.Time) *timestamppb.Timestamp {
	if end.IsZero() {
		return nil
	}
	return timestamppb.New(end)
}
