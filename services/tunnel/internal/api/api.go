// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package api answers TunnelService: who is connected to this replica.
package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// AdminGroup is the group whose members may see all connections.
const AdminGroup = "leat:admins"

// How many sessions a page holds.
const (
	defaultPage = 500
	maxPage     = 1000
)

// Service implements TunnelService.
type Service struct {
	table *session.Table
}

var _ tunnelv1connect.TunnelServiceHandler = (*Service)(nil)

// New returns the service for one table.
func New(table *session.Table) *Service { return &Service{table: table} }

// ListSessions implements TunnelService. Sessions are sorted by cluster, the newest of a cluster first; a session that
// begins while somebody pages is on its page or on none.
func (s *Service) ListSessions(ctx context.Context, req *tunnelv1.ListSessionsRequest) (*tunnelv1.ListSessionsResponse, error) {
	if err := authorize(ctx); err != nil {
		return nil, err
	}
	size, after, err := parsePage(req)
	if err != nil {
		return nil, err
	}
	sessions := s.table.Sessions(req.GetCluster())
	first, _ := slices.BinarySearchFunc(sessions, after, func(s session.Snapshot, at cursor) int { return at.compare(s) })
	sessions = sessions[first:]
	res := &tunnelv1.ListSessionsResponse{}
	if len(sessions) > size {
		sessions = sessions[:size]
		last := sessions[size-1]
		res.NextPageToken = cursor{Cluster: last.Cluster, Epoch: last.Epoch}.token()
	}
	for _, snapshot := range sessions {
		res.Sessions = append(res.Sessions, sessionProto(snapshot))
	}
	return res, nil
}

func authorize(ctx context.Context) error {
	caller, _ := identity.FromContext(ctx)
	if caller.Kind == identity.KindService || caller.Kind == identity.KindUser && slices.Contains(caller.Groups, AdminGroup) {
		return nil
	}
	return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
		"only members of "+AdminGroup+" and the hub's services may list connections")
}

func sessionProto(s session.Snapshot) *tunnelv1.Session {
	return &tunnelv1.Session{
		Id: s.ID, Cluster: s.Cluster,
		ConnectedAt:   timestamppb.New(s.ConnectedAt),
		RemoteAddress: s.RemoteAddress,
		AgentVersion:  s.AgentVersion,
		ActiveStreams: int32(min(s.ActiveStreams, maxInt32)),
		TotalStreams:  s.TotalStreams,
		Transport:     s.Transport,
		LastSeenAt:    timestamppb.New(s.LastSeen),
	}
}

const maxInt32 = 1<<31 - 1

// cursor is the last session of a page.
type cursor struct {
	Cluster string `json:"c"`
	Epoch   uint64 `json:"e"`
}

// compare is -1 for sessions up to the cursor and 1 for those after it, so that a search finds the first one after.
func (c cursor) compare(s session.Snapshot) int {
	if s.Cluster < c.Cluster || s.Cluster == c.Cluster && s.Epoch >= c.Epoch {
		return -1
	}
	return 1
}

func (c cursor) token() string {
	encoded, _ := json.Marshal(c) // a string and a number always encode
	return base64.RawURLEncoding.EncodeToString(encoded)
}

func parsePage(req *tunnelv1.ListSessionsRequest) (size int, after cursor, err error) {
	size = int(req.GetPage().GetSize())
	switch {
	case size < 0:
		return 0, cursor{}, rpcerr.Field("page.size", "must not be negative")
	case size == 0:
		size = defaultPage
	}
	size = min(size, maxPage)
	token := req.GetPage().GetToken()
	if token == "" {
		return size, cursor{}, nil
	}
	encoded, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(encoded, &after) != nil || after.Cluster == "" {
		return 0, cursor{}, rpcerr.Field("page.token", "is not a next_page_token of this call")
	}
	return size, after, nil
}
