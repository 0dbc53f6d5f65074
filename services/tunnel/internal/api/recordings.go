// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/recording"
)

// chunk is how much of a recording a message carries.
const chunk = 64 << 10

// ListRecordings implements TunnelService.
func (s *Service) ListRecordings(ctx context.Context, req *tunnelv1.ListRecordingsRequest) (*tunnelv1.ListRecordingsResponse, error) {
	v, err := s.visit(ctx, req.GetLocal(), asked("list", "recordings", "", req.GetCluster()))
	if err != nil {
		return nil, err
	}
	res, err := s.listRecordings(ctx, req)
	v.end(ctx, err)
	return res, err
}

func (s *Service) listRecordings(ctx context.Context, req *tunnelv1.ListRecordingsRequest) (*tunnelv1.ListRecordingsResponse, error) {
	size, after, err := parsePage(req.GetPage())
	if err != nil {
		return nil, err
	}
	all := part[*tunnelv1.Recording]{}
	if all.items, err = s.ownRecordings(ctx, req); err != nil {
		return nil, err
	}
	res := &tunnelv1.ListRecordingsResponse{}
	if !req.GetLocal() {
		all, res.Unanswered = gather(ctx, s, all, func(ctx context.Context, peer Peer) (part[*tunnelv1.Recording], error) {
			res, err := peer.Client.ListRecordings(ctx, &tunnelv1.ListRecordingsRequest{
				Cluster: req.GetCluster(), Subject: req.GetSubject(), BeganFrom: req.GetBeganFrom(), BeganBefore: req.GetBeganBefore(),
				Page: req.GetPage(), Local: true,
			})
			return part[*tunnelv1.Recording]{items: res.GetRecordings(), more: res.GetNextPageToken() != ""}, err
		})
	}
	res.Recordings, res.NextPageToken = cut(all, size, after, placeOfRecording)
	return res, nil
}

func (s *Service) ownRecordings(ctx context.Context, req *tunnelv1.ListRecordingsRequest) ([]*tunnelv1.Recording, error) {
	if s.deps.Recordings == nil {
		return nil, nil
	}
	filter := recording.Filter{Cluster: req.GetCluster(), Subject: req.GetSubject()}
	for field, bound := range map[string]struct {
		from *timestamppb.Timestamp
		to   *time.Time
	}{"began_from": {req.GetBeganFrom(), &filter.From}, "began_before": {req.GetBeganBefore(), &filter.Before}} {
		if bound.from == nil {
			continue
		}
		if err := bound.from.CheckValid(); err != nil {
			return nil, rpcerr.Field(field, "is not a time")
		}
		*bound.to = bound.from.AsTime()
	}
	entries, err := s.deps.Recordings.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	var all []*tunnelv1.Recording
	for _, e := range entries {
		all = append(all, &tunnelv1.Recording{
			Id: e.ID, Cluster: e.Cluster, Subject: e.Subject, Namespace: e.Namespace, Pod: e.Pod, Container: e.Container, Command: e.Command,
			BeganAt: timestamppb.New(e.Began), WrittenAt: timestamppb.New(e.Written), Size: e.Size, Replica: s.deps.Replica,
		})
	}
	return all, nil
}

func placeOfRecording(r *tunnelv1.Recording) cursor {
	return cursor{At: r.GetBeganAt().AsTime().UnixNano(), ID: r.GetId(), Replica: r.GetReplica()}
}

// GetRecordingRules implements TunnelService. The rules are no secret: a person who opens a session
// needs them to decide.
func (s *Service) GetRecordingRules(context.Context, *tunnelv1.GetRecordingRulesRequest) (*tunnelv1.GetRecordingRulesResponse, error) {
	if s.deps.Recordings == nil {
		return &tunnelv1.GetRecordingRulesResponse{}, nil
	}
	rules := s.deps.Recordings.Rules()
	return &tunnelv1.GetRecordingRulesResponse{Output: true, Input: rules.Input, Required: rules.Required}, nil
}

// GetRecording implements TunnelService.
func (s *Service) GetRecording(ctx context.Context, req *tunnelv1.GetRecordingRequest, stream *connect.ServerStream[tunnelv1.GetRecordingResponse]) error {
	v, err := s.visit(ctx, req.GetLocal(), asked("get", "recordings", req.GetId(), ""))
	if err != nil {
		return err
	}
	err = s.getRecording(ctx, req, stream, v)
	v.end(ctx, err)
	return err
}

func (s *Service) getRecording(
	ctx context.Context, req *tunnelv1.GetRecordingRequest, stream *connect.ServerStream[tunnelv1.GetRecordingResponse], v *visit,
) error {
	if !recording.ValidID(req.GetId()) {
		return rpcerr.Field("id", "is not the id of a recording; ListRecordings has those there are")
	}
	err := s.sendOwn(ctx, req.GetId(), stream, v)
	if !errors.Is(err, recording.ErrNotFound) {
		return err
	}
	if req.GetLocal() {
		return rpcerr.NotFound("recording", req.GetId())
	}
	return s.passOn(ctx, req.GetId(), stream, v)
}

func (s *Service) sendOwn(
	ctx context.Context, id string, stream *connect.ServerStream[tunnelv1.GetRecordingResponse], v *visit,
) error {
	if s.deps.Recordings == nil {
		return recording.ErrNotFound
	}
	file, err := s.deps.Recordings.Open(id)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	buffer := make([]byte, chunk)
	for {
		n, err := io.ReadFull(file, buffer)
		if n > 0 {
			if err := stream.Send(&tunnelv1.GetRecordingResponse{Data: buffer[:n]}); err != nil {
				return err
			}
			if err := v.sent(ctx, n); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("read recording: %w", err)
		}
	}
}

// passOn sends the recording of the replica that has it.
func (s *Service) passOn(
	ctx context.Context, id string, stream *connect.ServerStream[tunnelv1.GetRecordingResponse], v *visit,
) error {
	peers, unanswered := s.others(ctx)
	for _, peer := range peers {
		found, err := s.passFrom(ctx, peer, id, stream, v)
		switch {
		case found:
			return err
		case connect.CodeOf(err) != connect.CodeNotFound:
			unanswered = append(unanswered, peer.Replica)
		}
	}
	if len(unanswered) > 0 {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"no replica that answered has the recording, and these did not answer: "+strings.TrimSpace(strings.Join(unanswered, " "))+"; retry")
	}
	return rpcerr.NotFound("recording", id)
}

// passFrom asks one replica. Found reports that it has begun to send. The time that it has is for
// its first message.
func (s *Service) passFrom(
	ctx context.Context, peer Peer, id string, to *connect.ServerStream[tunnelv1.GetRecordingResponse], v *visit,
) (found bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(askTimeout, cancel)
	defer late.Stop()
	from, err := peer.Client.GetRecording(ctx, &tunnelv1.GetRecordingRequest{Id: id, Local: true})
	if err != nil {
		return false, err
	}
	defer func() { _ = from.Close() }()
	for from.Receive() {
		late.Stop()
		found = true
		if err := to.Send(&tunnelv1.GetRecordingResponse{Data: from.Msg().GetData()}); err != nil {
			return true, err
		}
		if err := v.sent(ctx, len(from.Msg().GetData())); err != nil {
			return true, err
		}
	}
	if err := from.Err(); err != nil || found {
		return found, err
	}
	return true, nil // a file without a byte
}
