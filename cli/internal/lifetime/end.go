// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lifetime

import (
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/failure"
)

// End holds the flags --for and --until: when something ends by itself.
type End struct {
	span  Span
	until string
}

// Bind adds the flags. What names the thing that ends, such as "the pause".
func (e *End) Bind(flags *pflag.FlagSet, what string) {
	flags.Var(&e.span, "for", "how long "+what+" lasts, such as 2h, 3d or 1w; 90d at most (default: until it is ended)")
	flags.StringVar(&e.until, "until", "", "when "+what+" ends, as a date or a time, such as 2026-12-01T08:00Z; without a zone it is local")
}

// At returns the end that the flags set, or nil for none. A span begins now, by the clock of this
// machine: the document holds a moment, which the command prints, and the hub refuses one that has
// passed by its own clock.
func (e *End) At(now time.Time) (*timestamppb.Timestamp, error) {
	switch {
	case e.span != 0 && e.until != "":
		return nil, failure.Usage("--for excludes --until")
	case e.span < 0:
		return nil, failure.Usage("--for must be positive, such as 2h")
	case e.span > 0:
		return timestamppb.New(now.Add(time.Duration(e.span)).Add(time.Second - 1).Truncate(time.Second)), nil
	case e.until == "":
		return nil, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, e.until, now.Location()); err == nil {
			return timestamppb.New(at), nil
		}
	}
	return nil, failure.Usage("--until: %q is not a time; write 2026-12-01, 2026-12-01T08:00 or 2026-12-01T08:00:00Z", e.until)
}

// Until returns the words that follow what a command did, such as " until 2026-12-01T08:00:00Z", or
// nothing for nil.
func Until(end *timestamppb.Timestamp) string {
	if end == nil {
		return ""
	}
	return " until " + end.AsTime().Format(time.RFC3339)
}
