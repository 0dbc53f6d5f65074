// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/intake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxReports bounds the services of one report.
const maxReports = 10_000

// ReportStatus implements DistributorService.
func (s *Service) ReportStatus(ctx context.Context, req *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	if err := validateReport(req); err != nil {
		return nil, err
	}
	s.d.View.Presence.Heard(cluster)
	report := agentReportOf(cluster, req)
	s.d.View.Attribute(cluster, &report)
	receipt, err := s.d.Intake.Take(ctx, report)
	if errors.Is(err, intake.ErrBusy) {
		return nil, busy()
	}
	if err != nil {
		return nil, wire.Error(err)
	}
	res := &distributorv1.ReportStatusResponse{WantFull: receipt.WantFull}
	if receipt.WantFull {
		res.CurrentInstance = &receipt.Current
	}
	return res, nil
}

func validateReport(req *distributorv1.ReportStatusRequest) error {
	switch {
	case req.GetInstance() == "" || len(req.GetInstance()) > wire.MaxText:
		return rpcerr.Field("instance", "must be 1 to 256 bytes that name the agent's process")
	case len(req.GetPlanVersion()) > wire.MaxText:
		return rpcerr.Field("plan_version", "is too long")
	case req.GetSequence() == 0 || req.GetSequence() > math.MaxInt64:
		return rpcerr.Field("sequence", "must be counted from 1")
	case len(req.GetServices()) > maxReports:
		return rpcerr.Field("services", "has more than 10000 reports; send them in parts")
	}
	return nil
}

func agentReportOf(cluster *catalog.Cluster, m *distributorv1.ReportStatusRequest) catalog.AgentReport {
	report := catalog.AgentReport{
		ClusterUID:  cluster.UID,
		PlanVersion: m.GetPlanVersion(),
		Full:        m.GetFull(),
		Instance:    m.GetInstance(),
		Sequence:    m.GetSequence(),
		Replaces:    m.Replaces,
		ReceivedAt:  time.Now().UTC(),
		Bytes:       proto.Size(m),

		Acknowledged: m.GetAcknowledged(),
	}
	if c := m.GetCluster(); c != nil {
		stated := wire.ClusterReportOf(c)
		report.Cluster = &stated
	}
	for _, s := range m.GetServices() {
		stated := wire.ReportOf(s)
		report.Services = append(report.Services, catalog.StoredReport{Service: objectname.ServicePath(s.GetService(), cluster.Name), ServiceUID: s.GetServiceUid(), Report: &stated})
	}
	return report
}
