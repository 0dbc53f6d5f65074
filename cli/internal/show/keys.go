// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Keys shows the hub's keys: in two tables, or as one document.
func Keys(w io.Writer, format Format, style Style, now time.Time, keys *fleetv1.GetKeysResponse) error {
	if format != Table {
		return items(w, format, nil, []*fleetv1.GetKeysResponse{keys}, nil)
	}
	sealing := newGrid(style, "SEALING KEY", "ROOT", "STATE", "AGE", "VALUES")
	var rows [][]cell
	for _, key := range keys.GetSealingKeys() {
		state := plain("ends when it has no values")
		if key.GetCurrent() {
			state = plain("seals")
		}
		rows = append(rows, []cell{
			plain(key.GetId()), plain(key.GetRoot()), state, ago(key.GetCreateTime(), now), plain(strconv.FormatInt(key.GetValues(), 10)),
		})
	}
	if n := keys.GetValuesWithoutKey(); n > 0 {
		rows = append(rows, []cell{plain("(earlier release)"), plain(""), plain("sealed again soon"), plain(""), plain(strconv.FormatInt(n, 10))})
	}
	if err := sealing.write(w, rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	signing := newGrid(style, "SIGNING KEY", "STATE", "AGE", "SIGNS FROM", "PUBLISHED UNTIL")
	rows = nil
	for _, key := range keys.GetSigningKeys() {
		state := plain("verifies")
		switch {
		case key.GetCurrent():
			state = plain("signs")
		case key.GetSignTime().AsTime().After(now):
			state = plain("waits")
		}
		rows = append(rows, []cell{
			plain(key.GetId()), state, ago(key.GetCreateTime(), now), minute(key.GetSignTime()), minute(key.GetEndTime()),
		})
	}
	return signing.write(w, rows)
}

// minute returns a time to the minute, or "-".
func minute(at *timestamppb.Timestamp) cell {
	if at == nil {
		return plain("-")
	}
	return plain(at.AsTime().UTC().Format("2006-01-02 15:04Z"))
}
