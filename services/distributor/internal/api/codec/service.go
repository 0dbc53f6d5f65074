// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"slices"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// ServiceOf returns the service that a message describes.
func ServiceOf(m *fleetv1.Service) (*catalog.Service, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	options, err := policywire.Wanted(spec)
	if err != nil {
		return nil, fielderr.Within("spec", err)
	}
	service := &catalog.Service{Metadata: metadata, Spec: catalog.ServiceSpec{
		Cluster: spec.GetCluster(), Sources: wire.Each(spec.GetSources(), sourcewire.Of), Options: &options, Config: configOf(spec.GetConfig()),
		ConfigSets: spec.GetConfigSets(),
	}}
	if err := parseReferences(&service.Spec, m.GetMetadata().GetProject()); err != nil {
		return nil, err
	}
	service.Name = objectname.ServicePath(service.Name, service.Spec.Cluster)
	return service, nil
}

func configOf(m *fleetv1.ServiceConfig) *catalog.Config {
	if m == nil {
		return nil
	}
	config := &catalog.Config{Values: m.GetValues(), Secrets: make(map[string]secret.Text, len(m.GetSecrets())), References: m.GetReferences(), Restart: m.GetRestart()}
	for key, text := range m.GetSecrets() {
		config.Secrets[key] = secret.Text(text)
	}
	return config
}

func serviceMessage(s *catalog.Service, status fleet.ServiceStatus) *fleetv1.Service {
	return &fleetv1.Service{
		Metadata: MetadataMessage(&s.Metadata),
		Spec:     serviceSpecMessage(s.Spec, objectname.Project(s.Name)),
		Status:   serviceStatusMessage(s, status),
	}
}

// serviceSpecMessage returns the spec with references as people write them in the project.
func serviceSpecMessage(spec catalog.ServiceSpec, project string) *fleetv1.ServiceSpec {
	m := &fleetv1.ServiceSpec{
		Cluster: objectname.Format(spec.Cluster, project), Sources: wire.Each(spec.Sources, sourcewire.Message), Config: ConfigMessage(spec.Config),
		ConfigSets: FormatNames(spec.ConfigSets, project),
	}
	for _, source := range m.GetSources() {
		source.Repository = objectname.Format(source.GetRepository(), project)
	}
	policywire.SetWanted(m, formatOptions(spec.Wanted(), project))
	return m
}

func serviceStatusMessage(s *catalog.Service, status fleet.ServiceStatus) *fleetv1.ServiceStatus {
	m := &fleetv1.ServiceStatus{
		Phase:              enumname.Value[typev1.ServicePhase](string(status.Phase)),
		Problem:            catalogwire.ProblemMessage(status.Problem),
		Synced:             status.Synced,
		ObservedGeneration: status.ObservedGeneration,
		SyncRequest:        s.SyncRequest,
		Hold:               holdMessage(s, status.Hold),
		PauseEnded:         status.HasPauseEnded,
	}
	if s.Derived != nil {
		m.GlobalService = objectname.Display(s.Derived.Global)
	}
	if e := s.Exception; e != nil {
		m.Exception = &fleetv1.ServiceException{
			Paused: e.Paused, PausedUntil: policywire.EndMessage(e.PausedUntil), PruneConfirmation: e.PruneConfirmation, By: e.By, At: catalogwire.Timestamp(e.At), Reason: e.Reason,
		}
	}
	m.Sources = wire.Each(status.Sources, func(r catalog.Resolution) *fleetv1.SourceStatus {
		return &fleetv1.SourceStatus{
			Snapshot: snapshotMessage(r.Snapshot), Problem: catalogwire.ProblemMessage(r.Problem), ResolvedAt: catalogwire.Timestamp(r.ResolvedAt),
		}
	})
	if status.Report != nil {
		m.Report = wire.ReportMessage(s, status.Report)
	}
	return m
}

// ConfigMessage never carries a secret: only its key.
func ConfigMessage(config *catalog.Config) *fleetv1.ServiceConfig {
	if config.Empty() {
		return nil
	}
	m := &fleetv1.ServiceConfig{Values: config.Values, Secrets: make(map[string]string, len(config.Secrets)), References: config.References, Restart: config.Restart}
	for key := range config.Secrets {
		m.Secrets[key] = ""
	}
	return m
}

func snapshotMessage(s *catalog.Snapshot) *typev1.Snapshot {
	if s == nil {
		return nil
	}
	return &typev1.Snapshot{
		Commit:      s.Commit,
		Digest:      s.Digest.String(),
		ContentSize: s.ContentSize,
		StoredSize:  s.StoredSize,
		FileCount:   int32(s.Files),
		Version:     s.Version,
	}
}

// parseReferences turns what a service's spec refers to into paths.
func parseReferences(spec *catalog.ServiceSpec, project string) (err error) {
	if spec.Cluster, err = objectname.Parse("spec.cluster", spec.Cluster, project); err != nil {
		return err
	}
	for i := range spec.Sources {
		source := &spec.Sources[i]
		if source.Repository, err = objectname.Parse(fielderr.Indexed("spec.sources", i)+".repository", source.Repository, project); err != nil {
			return err
		}
	}
	if spec.ConfigSets, err = parseEach("spec.config_sets", spec.ConfigSets, project, objectname.Parse); err != nil {
		return err
	}
	if spec.Options == nil || len(spec.Options.Policy.DependsOn) == 0 {
		return nil
	}
	options := *spec.Options
	options.Policy.DependsOn, err = eachDependency(options.Policy.DependsOn, func(i int, service string) (string, error) {
		return objectname.Parse(fielderr.Indexed("spec.policy.depends_on", i)+".service", service, project)
	})
	spec.Options = &options
	return err
}

// formatOptions returns the options with references that people read in the project.
func formatOptions(options syncpolicy.Options, project string) syncpolicy.Options {
	options.Policy.DependsOn, _ = eachDependency(options.Policy.DependsOn, func(_ int, service string) (string, error) {
		return objectname.Format(service, project), nil
	})
	return options
}

// eachDependency returns a copy of the list with other names of services.
func eachDependency(list []syncpolicy.Dependency, name func(int, string) (string, error)) ([]syncpolicy.Dependency, error) {
	renamed := slices.Clone(list)
	for i := range renamed {
		if renamed[i].Service == "" {
			continue
		}
		service, err := name(i, renamed[i].Service)
		if err != nil {
			return nil, err
		}
		renamed[i].Service = service
	}
	return renamed, nil
}
