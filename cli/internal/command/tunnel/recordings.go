// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/cli/internal/show"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// Sessions is `leat session`.
func Sessions(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, save and play recordings of sessions in pods",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(list(s), export(s), play(s))
	return cmd
}

// filter selects recordings.
type filter struct {
	cluster, user string
	since         time.Duration
}

func list(s *session.Session) *cobra.Command {
	f, format := filter{}, show.Table
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List recordings of sessions in pods",
		Long: `List the recordings that the hub made of kubectl exec and attach with a terminal, the newest first, over all its replicas. There are
some only if the hub's operator has enabled recording. Only administrators may list them.`,
		Example: `  leat session list --cluster berlin --since 24h
  leat session list --user ada -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.Fail(printRecordings(cmd.Context(), s, f, format))
		},
	}
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "only this cluster")
	cmd.Flags().StringVar(&f.user, "user", "", "only this person")
	cmd.Flags().DurationVar(&f.since, "since", 0, "only sessions that began within this time, such as 24h")
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	return cmd
}

func (f filter) request() *tunnelv1.ListRecordingsRequest {
	req := &tunnelv1.ListRecordingsRequest{Cluster: f.cluster}
	if f.user != "" {
		req.Subject = "user:" + f.user
	}
	if f.since > 0 {
		req.BeganFrom = timestamppb.New(time.Now().Add(-f.since))
	}
	return req
}

func printRecordings(ctx context.Context, s *session.Session, f filter, format show.Format) error {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	hub, err := s.Tunnel(ctx)
	if err != nil {
		return err
	}
	if f.cluster, err = s.ClusterPath(f.cluster); err != nil {
		return err
	}
	req := f.request()
	all, err := gather(s, func(page *typev1.Page) (*tunnelv1.ListRecordingsResponse, error) {
		req.Page = page
		return hub.ListRecordings(ctx, req)
	}, (*tunnelv1.ListRecordingsResponse).GetRecordings)
	if err != nil {
		return err
	}
	return show.Recordings(s.Out, format, s.Style(s.Out), all, time.Now())
}

func export(s *session.Session) *cobra.Command {
	path := ""
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Save a recording as an asciicast file",
		Example: `  leat session export 0af7651916cd43dd8448eb211c80319c --file session.cast
  leat session export 0af7651916cd43dd8448eb211c80319c | asciinema play -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.Fail(save(cmd.Context(), s, args[0], path)) },
	}
	cmd.Flags().StringVar(&path, "file", "", "write it to this file, readable for you only, instead of printing it")
	return cmd
}

func save(ctx context.Context, s *session.Session, id, path string) error {
	recording, err := fetch(ctx, s, id)
	if err != nil {
		return err
	}
	defer func() { _ = recording.Close() }()
	if path == "" {
		_, err = io.Copy(s.Verbatim, recording)
		return err
	}
	content, err := io.ReadAll(recording) // the hub bounds recordings
	if err != nil {
		return err
	}
	if err := settings.WriteFile(path, content); err != nil {
		return failure.File(err, "")
	}
	_, err = fmt.Fprintf(s.Out, "Try: leat session play %s\n", path)
	return err
}

// fetch opens a recording of the hub, which is downloaded as it is read.
func fetch(ctx context.Context, s *session.Session, id string) (io.ReadCloser, error) {
	hub, err := s.Tunnel(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := hub.GetRecording(ctx, &tunnelv1.GetRecordingRequest{Id: id})
	if err != nil {
		return nil, err
	}
	recording := bufio.NewReader(&download{stream: stream})
	if _, err := recording.Peek(1); err != nil && !errors.Is(err, io.EOF) { // report a wrong id at once
		return nil, errors.Join(err, stream.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{recording, stream}, nil
}

// download reads the pieces of a recording one after the other.
type download struct {
	stream *connect.ServerStreamForClient[tunnelv1.GetRecordingResponse]
	rest   []byte
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if !d.stream.Receive() {
			return 0, cmp.Or(d.stream.Err(), io.EOF)
		}
		d.rest = d.stream.Msg().GetData()
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}
