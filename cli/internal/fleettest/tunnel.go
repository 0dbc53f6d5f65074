// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// sessions answers for the tunnel itself: two connections of agents, one per page, and one
// recording.
type sessions struct {
	tunnelv1connect.UnimplementedTunnelServiceHandler
}

// ListSessions implements TunnelService. One of the replicas is away.
func (sessions) ListSessions(_ context.Context, r *tunnelv1.ListSessionsRequest) (*tunnelv1.ListSessionsResponse, error) {
	response := &tunnelv1.ListSessionsResponse{NextPageToken: "2", Unanswered: []string{"r2"}}
	cluster := "demo"
	if r.GetPage().GetToken() != "" {
		response.NextPageToken, cluster = "", "other"
	}
	if r.GetCluster() == "" || r.GetCluster() == cluster {
		response.Sessions = []*tunnelv1.Session{{
			Id: "c-" + cluster, Cluster: cluster, Replica: "r1", Transport: "websocket", AgentVersion: "v1.2.3", RemoteAddress: "192.0.2.1:443",
			ConnectedAt: timestamppb.New(time.Now().Add(-time.Hour)), LastSeenAt: timestamppb.New(time.Now()), ActiveStreams: 3,
		}}
	}
	return response, nil
}

// recording is an asciicast of a session.
const recording = "{\"version\":2,\"width\":80,\"height\":24}\n[0.1,\"o\",\"hello from the pod\\r\\n\"]\n"

// ListRecordings implements TunnelService.
func (sessions) ListRecordings(_ context.Context, r *tunnelv1.ListRecordingsRequest) (*tunnelv1.ListRecordingsResponse, error) {
	if r.GetSubject() != "" && r.GetSubject() != "user:ada" || r.GetBeganFrom().AsTime().After(time.Now().Add(-2*time.Hour)) {
		return &tunnelv1.ListRecordingsResponse{}, nil
	}
	return &tunnelv1.ListRecordingsResponse{Recordings: []*tunnelv1.Recording{{
		Id: "0af7651916cd43dd", Cluster: "demo", Subject: "user:ada", Namespace: "shop", Pod: "web-0", Command: []string{"sh", "-l"},
		BeganAt: timestamppb.New(time.Now().Add(-2 * time.Hour)), Size: int64(len(recording)),
	}}}, nil
}

// GetRecording implements TunnelService, in two pieces.
func (sessions) GetRecording(
	_ context.Context, r *tunnelv1.GetRecordingRequest, stream *connect.ServerStream[tunnelv1.GetRecordingResponse],
) error {
	if r.GetId() != "0af7651916cd43dd" {
		return rpcerr.NotFound("recording", r.GetId())
	}
	for _, piece := range []string{recording[:10], recording[10:]} {
		if err := stream.Send(&tunnelv1.GetRecordingResponse{Data: []byte(piece)}); err != nil {
			return err
		}
	}
	return nil
}
