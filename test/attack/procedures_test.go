// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
)

// procedure is a Connect procedure.
type procedure struct {
	path   string // such as /leat.fleet.v1.FleetService/Get
	stream bool   // in either direction
}

// proceduresOf returns the procedures of a program, from the descriptors of its packages, so that
// new procedures are attacked too.
func proceduresOf(program string) []procedure {
	packages := map[string][]protoreflect.FileDescriptor{
		"gitcache":    {gitcachev1.File_leat_gitcache_v1_gitcache_proto},
		"distributor": {distributorv1.File_leat_distributor_v1_distributor_proto, fleetv1.File_leat_fleet_v1_fleet_proto},
		"tunnel":      {tunnelv1.File_leat_tunnel_v1_tunnel_proto},
		"agent":       {agentv1.File_leat_agent_v1_agent_proto},
		"peer":        {fleetv1.File_leat_fleet_v1_fleet_proto}, // any package would do
	}
	var all []procedure
	for _, file := range packages[program] {
		protoregistry.GlobalFiles.RangeFilesByPackage(file.Package(), func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				methods := file.Services().Get(i).Methods()
				for j := range methods.Len() {
					method := methods.Get(j)
					all = append(all, procedure{
						path:   "/" + string(method.Parent().FullName()) + "/" + string(method.Name()),
						stream: method.IsStreamingClient() || method.IsStreamingServer(),
					})
				}
			}
			return true
		})
	}
	slices.SortFunc(all, func(a, b procedure) int { return strings.Compare(a.path, b.path) })
	return all
}

// These functions return the procedures that all services have besides their own.
func healthProcedures(*victim) []procedure {
	return []procedure{{path: "/grpc.health.v1.Health/Check"}, {path: "/grpc.health.v1.Health/Watch", stream: true}}
}

func reflectionProcedures(*victim) []procedure {
	return []procedure{
		{path: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", stream: true},
		{path: "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", stream: true},
	}
}

func ownProcedures(v *victim) []procedure { return v.server.procedures }

func everyProcedure(v *victim) []procedure {
	return slices.Concat(healthProcedures(v), reflectionProcedures(v), ownProcedures(v))
}
