// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/cast"
	"github.com/leatdev/leat/cli/internal/session"
)

func play(s *session.Session) *cobra.Command {
	opts := cast.Options{Speed: 1, IdleLimit: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "play ID|FILE|-",
		Short: "Play a recording of a session",
		Long: `Play a recording (asciicast) that the hub made of kubectl exec or attach: by its id, which leat session list shows and which is
the id of the session's audit records, or from a file, whose name ends in .cast or has a slash; - reads standard input.`,
		Example: `  leat session play 0af7651916cd43dd8448eb211c80319c
  leat session play --raw 0af7651916cd43dd8448eb211c80319c.cast | less -R`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			recording, err := open(cmd.Context(), s, args[0])
			if err != nil {
				return s.Fail(err)
			}
			defer func() { _ = recording.Close() }()
			return s.Fail(cast.Play(cmd.Context(), s.Verbatim, recording, opts))
		},
	}
	cmd.Flags().Float64Var(&opts.Speed, "speed", opts.Speed, "speed factor")
	cmd.Flags().DurationVar(&opts.IdleLimit, "idle-limit", opts.IdleLimit, "longest pause; 0 keeps all pauses")
	cmd.Flags().BoolVar(&opts.Raw, "raw", false, "write the output at once, without pauses")
	return cmd
}

// open opens a recording by its id or file name.
func open(ctx context.Context, s *session.Session, name string) (io.ReadCloser, error) {
	switch {
	case name == "-":
		return io.NopCloser(s.In), nil
	case strings.HasSuffix(name, ".cast") || strings.ContainsAny(name, `/\`):
		return os.Open(name)
	default:
		return fetch(ctx, s, name)
	}
}
