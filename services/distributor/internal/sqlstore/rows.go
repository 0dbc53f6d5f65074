// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// metaColumns are the columns of catalog.Metadata.
type metaColumns struct {
	UID             string `bun:"uid,pk"`
	Name            string `bun:"name"`
	Labels          string `bun:"labels"`
	Annotations     string `bun:"annotations"`
	ResourceVersion int64  `bun:"resource_version"`
	Generation      int64  `bun:"generation"`
	Revision        int64  `bun:"revision"`
	CreatedAt       int64  `bun:"created_at"`
	UpdatedAt       int64  `bun:"updated_at"`
}

type clusterRow struct {
	bun.BaseModel `bun:"table:clusters,alias:c"`
	metaColumns
	Description    string `bun:"description"`
	Settings       string `bun:"agent_settings"` // JSON, or empty
	AgentEndpoint  string `bun:"agent_endpoint"`
	PublicKey      []byte `bun:"public_key"`
	KeyGeneration  int64  `bun:"key_generation"`
	LastSeenAt     int64  `bun:"last_seen_at"`
	ConnectedUntil int64  `bun:"connected_until"`
	Report         string `bun:"report"`
	PlanVersion    string `bun:"plan_version"`
	Instance       string `bun:"instance"`
	Sequence       int64  `bun:"sequence"`
}

type serviceRow struct {
	bun.BaseModel `bun:"table:services,alias:s"`
	metaColumns
	ClusterUID  string `bun:"cluster_uid"`
	Spec        string `bun:"spec"`
	SyncRequest string `bun:"sync_request"`
	// Config is JSON, or empty; it holds no secret.
	Config string `bun:"config"`
}

type reportRow struct {
	bun.BaseModel      `bun:"table:service_reports,alias:sr"`
	ServiceUID         string `bun:"service_uid,pk"`
	Service            string `bun:"service,scanonly"`
	Report             string `bun:"report"`
	Entry              string `bun:"entry"`
	ObservedGeneration int64  `bun:"observed_generation"`
	Revision           int64  `bun:"revision"`
}

type snapshotRow struct {
	bun.BaseModel `bun:"table:snapshots,alias:sn"`
	RepositoryUID string `bun:"repository_uid,pk"`
	Source        string `bun:"source,pk"`
	Snapshot      string `bun:"snapshot"`
	ResolvedAt    int64  `bun:"resolved_at"`
	FreshAt       int64  `bun:"fresh_at"`
}

type deletionRow struct {
	bun.BaseModel `bun:"table:deletions,alias:d"`
	UID           string `bun:"uid,pk"`
	Kind          string `bun:"kind"`
	Name          string `bun:"name"`
	Revision      int64  `bun:"revision"`
	DeletedAt     int64  `bun:"deleted_at"`
}

// micros is the stored form of a time; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// encode is the stored form of a value that SQL does not look into.
func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode column: %w", err)
	}
	return string(text), nil
}

func decode(column, text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("decode column %s: %w", column, err)
	}
	return nil
}

func metaRow(m *catalog.Metadata, revision int64) (metaColumns, error) {
	labels, err := encode(m.Labels)
	if err != nil {
		return metaColumns{}, err
	}
	annotations, err := encode(m.Annotations)
	return metaColumns{
		UID:             m.UID,
		Name:            m.Name,
		Labels:          labels,
		Annotations:     annotations,
		ResourceVersion: m.ResourceVersion,
		Generation:      m.Generation,
		Revision:        revision,
		CreatedAt:       micros(m.CreatedAt),
		UpdatedAt:       micros(m.UpdatedAt),
	}, err
}

func (r metaColumns) metadata() (catalog.Metadata, error) {
	m := catalog.Metadata{
		Name:            r.Name,
		UID:             r.UID,
		ResourceVersion: r.ResourceVersion,
		Generation:      r.Generation,
		CreatedAt:       timeOf(r.CreatedAt),
		UpdatedAt:       timeOf(r.UpdatedAt),
	}
	if err := decode("labels", r.Labels, &m.Labels); err != nil {
		return m, err
	}
	return m, decode("annotations", r.Annotations, &m.Annotations)
}

func (r *clusterRow) cluster() (*catalog.Cluster, error) {
	meta, err := r.metadata()
	if err != nil {
		return nil, err
	}
	c := &catalog.Cluster{Metadata: meta, Spec: catalog.ClusterSpec{Description: r.Description, AgentEndpoint: r.AgentEndpoint}}
	c.Agent = catalog.Agent{
		PublicKey:      r.PublicKey,
		KeyGeneration:  r.KeyGeneration,
		LastSeenAt:     timeOf(r.LastSeenAt),
		ConnectedUntil: timeOf(r.ConnectedUntil),
		PlanVersion:    r.PlanVersion,
		Instance:       r.Instance,
		Sequence:       uint64(r.Sequence),
	}
	if r.Settings != "" {
		if err := decode("agent_settings", r.Settings, &c.Spec.Settings); err != nil {
			return nil, err
		}
	}
	return c, decode("report", r.Report, &c.Agent.Report)
}

// service returns the row without its secrets: only their keys.
func (r *serviceRow) service() (*catalog.Service, error) {
	meta, err := r.metadata()
	if err != nil {
		return nil, err
	}
	s := &catalog.Service{Metadata: meta, SyncRequest: r.SyncRequest}
	if s.Spec, err = decodeSpec(r.Spec); err != nil {
		return nil, err
	}
	s.Spec.Config, s.ConfigDigest, err = decodeConfig(r.Config)
	return s, err
}

// specColumn is the stored form of a catalog.ServiceSpec.
type specColumn struct {
	Cluster string           `json:"cluster"`
	Sources []catalog.Source `json:"sources"`
	syncpolicy.Options
	// Sync holds five of the options a second time. Replicas of earlier versions know them in no
	// other place, and would prune where an owner turned that off.
	Sync *syncpolicy.Options `json:"sync"`
}

func encodeSpec(spec catalog.ServiceSpec) (string, error) {
	o := spec.Wanted()
	return encode(specColumn{Cluster: spec.Cluster, Sources: spec.Sources, Options: o, Sync: &syncpolicy.Options{
		Prune: o.Prune, CreateNamespace: o.CreateNamespace, HealthTimeout: o.HealthTimeout,
		ForceConflicts: o.ForceConflicts, PruneConfirmation: o.PruneConfirmation,
	}})
}

func decodeSpec(text string) (catalog.ServiceSpec, error) {
	var column specColumn
	column.Sync = &column.Options // an earlier version wrote these five options there alone
	err := decode("spec", text, &column)
	return catalog.ServiceSpec{Cluster: column.Cluster, Sources: column.Sources, Options: &column.Options}, err
}

func (r *reportRow) stored() (catalog.StoredReport, error) {
	s := catalog.StoredReport{
		Service:            r.Service,
		ServiceUID:         r.ServiceUID,
		Entry:              r.Entry,
		ObservedGeneration: r.ObservedGeneration,
	}
	return s, decode("report", r.Report, &s.Report)
}

func (r *deletionRow) tombstone() catalog.Tombstone {
	return catalog.Tombstone{Key: catalog.Key{Kind: catalog.Kind(r.Kind), Name: r.Name}, UID: r.UID, Revision: r.Revision}
}
