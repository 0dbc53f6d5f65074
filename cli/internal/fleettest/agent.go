// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// agents are the agents of all clusters, behind a tunnel. They answer about the service shop, and
// report any other service as healthy.
type agents struct {
	agentv1connect.UnimplementedAgentServiceHandler
}

// edited is when somebody edited a field by hand.
var edited = time.Date(2026, time.January, 30, 12, 0, 0, 0, time.UTC)

// accessToken is how the Authorization header of a caller with an access token begins.
const accessToken = "Bearer jwt-"

// tunnel serves them at /clusters/demo. Every other cluster's agent is offline.
func tunnel(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/clusters/demo/") {
		err := rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_AGENT_OFFLINE, "the agent is not connected")
		_ = connect.NewErrorWriter().Write(w, r, err)
		return
	}
	_, calls := agentv1connect.NewAgentServiceHandler(agents{})
	http.StripPrefix("/clusters/demo", calls).ServeHTTP(w, r)
}

func ref(kind, name string) *typev1.ObjectRef {
	return &typev1.ObjectRef{Version: "v1", Kind: kind, Namespace: "shop", Name: name}
}

// Diff implements AgentService. Bundles of another commit change more.
func (agents) Diff(_ context.Context, r *agentv1.DiffRequest) (*agentv1.DiffResponse, error) {
	response := &agentv1.DiffResponse{}
	if r.GetService() != "shop" {
		return response, nil
	}
	response.Objects = append(response.Objects, &agentv1.ObjectDiff{
		Ref: ref("ConfigMap", "web"), Action: agentv1.DiffAction_DIFF_ACTION_UPDATE, Unified: "--- live\n+++ desired\n@@ -1 +1 @@\n-replicas: 2\n+replicas: 3\n",
		Fields: []*agentv1.FieldDiff{
			{Path: ".spec.replicas", Before: "2", After: "3", IsTaken: true, Managers: []*agentv1.FieldManager{
				{Name: "kubectl-edit", Operation: "Update", Time: timestamppb.New(edited)}, {Name: "leat", Operation: "Apply"},
			}},
			{Path: ".spec.paused", Before: "true", Managers: []*agentv1.FieldManager{{Name: "leat", Operation: "Apply"}}},
		},
		FieldsOmitted: 3,
	})
	response.Unchanged = append(response.Unchanged, &agentv1.ObjectDiff{
		Ref: ref("Deployment", "web"), Ignored: []*agentv1.FieldDiff{
			{Path: ".spec.replicas", Before: "9", After: "1", Rule: "/spec/replicas", Managers: []*agentv1.FieldManager{{Name: "hpa\x1b[31m\nx", Operation: "Update"}}},
		},
	})
	if len(r.GetBundles()) > 0 {
		response.Objects = append(response.Objects, &agentv1.ObjectDiff{
			Ref: ref("Secret", "key"), Action: agentv1.DiffAction_DIFF_ACTION_DELETE, Unified: "--- live\n+++ desired\n@@ -1 +0,0 @@\n-kind: Secret\n",
			Problem: &typev1.Problem{Reason: errorsv1.Reason_REASON_PRUNE_GUARDED, Message: "the guard would hold it back"},
		}, &agentv1.ObjectDiff{
			Ref: ref("Job", "migrate"), Action: agentv1.DiffAction_DIFF_ACTION_REFUSE,
			Problem: &typev1.Problem{Reason: errorsv1.Reason_REASON_APPLY_REJECTED, Message: "field is immutable"},
		})
	}
	return response, nil
}

// GetInventory implements AgentService, one object a page.
func (agents) GetInventory(_ context.Context, r *agentv1.GetInventoryRequest) (*agentv1.GetInventoryResponse, error) {
	if r.GetPage().GetToken() == "" {
		return &agentv1.GetInventoryResponse{
			Objects: []*typev1.ObjectStatus{{Ref: ref("ConfigMap", "web"), Health: typev1.Health_HEALTH_HEALTHY}}, NextPageToken: "2",
		}, nil
	}
	return &agentv1.GetInventoryResponse{Objects: []*typev1.ObjectStatus{{
		Ref: &typev1.ObjectRef{Version: "v1", Kind: "Namespace", Name: "shop"}, Health: typev1.Health_HEALTH_TERMINATING,
		Problem: &typev1.Problem{Message: "it is being\ndeleted"},
	}}}, nil
}

// QueryMetrics implements AgentService: two pods, of which the second is new, and none of other
// services.
func (agents) QueryMetrics(_ context.Context, r *agentv1.QueryMetricsRequest) (*agentv1.QueryMetricsResponse, error) {
	if r.GetService() != "shop" {
		return nil, rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_METRICS_NOT_CONFIGURED,
			"the agent does not know the cluster's Prometheus; set spec.agent.metrics of the cluster")
	}
	unit := 0.001
	if r.GetMetric() == agentv1.Metric_METRIC_MEMORY {
		unit = 1 << 20
	}
	at := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	response := &agentv1.QueryMetricsResponse{LeftOut: 3}
	for _, pod := range []string{"web-5-bbbbb", "web-5-ccccc"} {
		series := &agentv1.MetricSeries{Namespace: "shop", Pod: pod, Metric: r.GetMetric()}
		for i, value := range []float64{0, 16, 32, 64, 128} {
			if pod == "web-5-ccccc" && i < 3 {
				continue
			}
			series.Points = append(series.Points, &agentv1.MetricPoint{Time: timestamppb.New(at.Add(time.Duration(i) * time.Minute)), Value: value * unit})
		}
		response.Series = append(response.Series, series)
	}
	return response, nil
}

// WatchEvents implements AgentService: two events, and then the agent goes away.
func (agents) WatchEvents(_ context.Context, r *agentv1.WatchEventsRequest, stream *connect.ServerStream[agentv1.WatchEventsResponse]) error {
	at := timestamppb.New(time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC))
	for _, event := range []*agentv1.WatchEventsResponse{
		{Time: at, Service: r.GetService(), Phase: typev1.ServicePhase_SERVICE_PHASE_SYNCING, Message: "applying 2 objects"},
		{Time: at, Service: r.GetService(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, Object: ref("ConfigMap", "web"), Message: "is healthy"},
	} {
		if err := stream.Send(event); err != nil {
			return err
		}
	}
	return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_AGENT_OFFLINE, "the agent went away")
}

// PreviewService implements FleetService. There are a branch and a tag called next.
func (h *Hub) PreviewService(_ context.Context, request *fleetv1.PreviewServiceRequest) (*fleetv1.PreviewServiceResponse, error) {
	object, err := h.get("service", request.GetName())
	if err != nil {
		return nil, err
	}
	if len(object.GetService().GetSpec().GetSources()) > 1 && request.GetRepository() == "" {
		return nil, rpcerr.Field("repository", "is required: the service has sources in several repositories")
	}
	if request.GetRef().GetBranch() != "next" && request.GetRef().GetTag() != "next" {
		return nil, rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_REF_NOT_FOUND, "there is no such ref")
	}
	return &fleetv1.PreviewServiceResponse{
		Cluster: object.GetService().GetSpec().GetCluster(),
		Service: &distributorv1.PlanService{Name: request.GetName(), Bundles: []*distributorv1.PlanBundle{{Digest: "sha256:1", Commit: Commit}}},
	}, nil
}
