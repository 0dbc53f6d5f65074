// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package report reports the progress of leat up: as lines for people, or as JSON, one event a
// line, for scripts.
package report

import (
	"time"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Progress Kind = "progress" // a part reports what it is doing
	Delivery Kind = "service"  // a service has a new state
	Ready    Kind = "ready"    // everything runs and the outcome of every service is known; once
	Stopping Kind = "stopping" // everything is being stopped
	Stopped  Kind = "stopped"  // nothing runs any more; the last event
)

// Event is one reported event. Scripts read the fields' JSON names, so they must not change.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    Kind      `json:"event"`
	Part    string    `json:"part,omitempty"`    // of Progress: hub, git, cluster demo …
	Message string    `json:"message,omitempty"` // of Progress, and of Stopping: why
	Service *Service  `json:"service,omitempty"` // of Delivery
	Summary *Summary  `json:"summary,omitempty"` // of Ready
	// Kubernetes is set when Message is about a way to get the files of a control plane.
	Kubernetes *Origin `json:"kubernetes,omitempty"`
}

// Origin is the outcome of one way to get the files of a control plane.
type Origin struct {
	Way   string   `json:"way"`             // --kubernetes-binaries, earlier start, PATH, kind, download, build
	Files []string `json:"files,omitempty"` // that it provided; empty if it was not taken
	Why   string   `json:"why,omitempty"`   // the reason why it did not provide the others
}

// Service is the state of a service.
type Service struct {
	Name    string   `json:"name"`
	Cluster string   `json:"cluster"`
	Phase   string   `json:"phase"`
	Synced  bool     `json:"synced"`
	Commits []string `json:"commits,omitempty"` // applied, in the order of the sources
	// Versions are the versions of Commits; empty if no source has one.
	Versions []string `json:"versions,omitempty"`
	Digests  []string `json:"digests,omitempty"` // applied, in the same order
	Objects  int32    `json:"objects"`
	Healthy  int32    `json:"healthy"`
	// Reason and Message describe its problem, and Advice what to do about it. Empty if there is
	// none.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// Delivered means that the content of its sources is applied and healthy, Failed that it needs
	// attention.
	Delivered bool `json:"delivered"`
	Failed    bool `json:"failed"`
}

// Cluster is a cluster of the fleet that leat up runs an agent for.
type Cluster struct {
	Name       string `json:"name"`
	Kubernetes string `json:"kubernetes,omitempty"` // version
	Kubeconfig string `json:"kubeconfig"`           // path of a file that reaches it through the tunnel
	Simulated  bool   `json:"simulated"`            // its nodes only pretend to run pods
}

// Summary is everything that a user or script needs to continue.
type Summary struct {
	Server     string    `json:"server"`               // base URL of the hub
	UI         string    `json:"ui,omitempty"`         // address of the web UI, which signs one browser in, within a minute; empty: there is none
	Tunnel     string    `json:"tunnel"`               // base URL of the tunnel
	Repository string    `json:"repository"`           // URL of the delivered repository
	Pushable   bool      `json:"pushable"`             // the repository is the local demo
	Config     string    `json:"config"`               // path for LEAT_CONFIG
	CAFile     string    `json:"caFile"`               // path of the tunnel's authority
	DataDir    string    `json:"dataDir"`              // path
	Logs       string    `json:"logs"`                 // path of the folder
	Namespace  string    `json:"namespace,omitempty"`  // of the services
	SearchPath string    `json:"searchPath,omitempty"` // folder of leat if it is not on the PATH
	Kubectl    string    `json:"kubectl"`              // command or path
	Kubernetes []Origin  `json:"kubernetes,omitempty"` // where the control planes come from; empty with --kubeconfig
	Clusters   []Cluster `json:"clusters"`
	Services   []Service `json:"services"`
}

// Reporter receives events, from one goroutine at a time.
type Reporter func(Event)
