// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package api answers TunnelService's calls of people: which agents are connected, and which
// sessions were recorded. A replica asks the others, and names the ones that did not answer.
package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/recording"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// serviceName is the name under which replicas know one another.
const serviceName = "tunnel"

// Deps are the collaborators of a [Service]. All are required, but where something else is said.
type Deps struct {
	// Table has the connections of this replica.
	Table *session.Table
	// Recordings are this replica's recordings. Nil: nothing is recorded.
	Recordings *recording.Store
	// Replica is this one's name.
	Replica string
	// Peers are the other replicas.
	Peers Peers
	// Access decides what a caller may do in the hub, in a question without a cluster.
	Access policy.Access
	// Sink receives the audit records of calls that show recordings.
	Sink audit.Sink
	// RecheckInterval is how often the permission is checked again while a recording is being sent.
	RecheckInterval time.Duration
}

// Service implements the part of TunnelService that people call.
type Service struct {
	deps Deps
}

// New returns the service.
func New(deps Deps) *Service { return &Service{deps: deps} }

// ListSessions implements TunnelService. A session that begins while a person pages is on its page
// or on none.
func (s *Service) ListSessions(ctx context.Context, req *tunnelv1.ListSessionsRequest) (*tunnelv1.ListSessionsResponse, error) {
	caller, _ := identity.FromContext(ctx)
	if caller.Kind != identity.KindService {
		if err := s.authorize(ctx, caller, permission.OfCall(ctx)); err != nil {
			return nil, err
		}
	}
	size, after, err := parsePage(req.GetPage())
	if err != nil {
		return nil, err
	}
	all := part[*tunnelv1.Session]{}
	for _, snapshot := range s.deps.Table.Sessions(req.GetCluster()) {
		all.items = append(all.items, s.sessionProto(snapshot))
	}
	res := &tunnelv1.ListSessionsResponse{}
	if !req.GetLocal() {
		all, res.Unanswered = gather(ctx, s, all, func(ctx context.Context, peer Peer) (part[*tunnelv1.Session], error) {
			res, err := peer.Client.ListSessions(ctx, &tunnelv1.ListSessionsRequest{Cluster: req.GetCluster(), Page: req.GetPage(), Local: true})
			return part[*tunnelv1.Session]{items: res.GetSessions(), more: res.GetNextPageToken() != ""}, err
		})
	}
	res.Sessions, res.NextPageToken = cut(all, size, after, placeOfSession)
	return res, nil
}

func placeOfSession(s *tunnelv1.Session) cursor {
	return cursor{Cluster: s.GetCluster(), At: s.GetConnectedAt().AsTime().UnixNano(), ID: s.GetId(), Replica: s.GetReplica()}
}

func (s *Service) sessionProto(snapshot session.Snapshot) *tunnelv1.Session {
	return &tunnelv1.Session{
		Id: snapshot.ID, Cluster: snapshot.Cluster,
		ConnectedAt:   timestamppb.New(snapshot.ConnectedAt),
		RemoteAddress: snapshot.RemoteAddress,
		AgentVersion:  snapshot.AgentVersion,
		ActiveStreams: int32(min(snapshot.ActiveStreams, maxInt32)),
		TotalStreams:  snapshot.TotalStreams,
		Transport:     snapshot.Transport,
		LastSeenAt:    timestamppb.New(snapshot.LastSeen),
		Replica:       s.deps.Replica,
	}
}

const maxInt32 = 1<<31 - 1
