// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/show"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// TestTraceOfAnyReport prints what an agent reports that lies about its times.
func TestTraceOfAnyReport(t *testing.T) {
	t.Parallel()
	for _, d := range []int64{math.MinInt64, -1, 0, 1, 1 << 28, math.MaxInt64} {
		for _, at := range []int64{math.MinInt64, 0, math.MaxInt64} {
			took, moment := durationpb.New(0), &timestamppb.Timestamp{Seconds: at}
			took.Seconds = d
			var out bytes.Buffer
			err := show.Trace(&out, show.Table, show.Style{}, "shop", &fleetv1.Revision{
				TraceId: "4bf9\x1b[2J", PlannedAt: &timestamppb.Timestamp{Seconds: 1}, FetchBeganAt: moment, FetchDuration: took,
				Timings: &distributorv1.Timings{ArrivedAt: moment, Download: took, RenderWait: took, Render: took, Apply: took, Healthy: took},
			})
			if err != nil {
				t.Fatal(err)
			}
			if strings.ContainsRune(out.String(), '\x1b') {
				t.Errorf("got %q, want no control character", out.String())
			}
			for line := range strings.Lines(out.String()) {
				if utf8.RuneCountInString(line) > 80 {
					t.Errorf("times of %d s, %d: got the line %q, want at most 80 columns", d, at, line)
				}
			}
		}
	}
}
