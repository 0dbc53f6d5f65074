// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package report tells what leat up is doing: as lines for a person, or as JSON, one event a line,
// for a script.
package report

import (
	"time"
)

// Kind says what an event is about.
type Kind string

// The kinds of events.
const (
	Progress Kind = "progress" // a part says what it is doing
	Delivery Kind = "service"  // a service is in another state than before
	Ready    Kind = "ready"    // everything runs and every service has been judged; once
	Stopping Kind = "stopping" // everything is being stopped
	Stopped  Kind = "stopped"  // nothing runs any more; the last event
)

// Event is one thing to tell. The fields' JSON names are what scripts read: they stay.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    Kind      `json:"event"`
	Part    string    `json:"part,omitempty"`    // of Progress: hub, git, cluster demo …
	Message string    `json:"message,omitempty"` // of Progress, and of Stopping: why
	Service *Service  `json:"service,omitempty"` // of Delivery
	Summary *Summary  `json:"summary,omitempty"` // of Ready
}

// Service is where a service stands.
type Service struct {
	Name    string   `json:"name"`
	Cluster string   `json:"cluster"`
	Phase   string   `json:"phase"`
	Synced  bool     `json:"synced"`
	Commits []string `json:"commits,omitempty"` // applied, in the order of the sources
	Digests []string `json:"digests,omitempty"` // applied, in the same order
	Objects int32    `json:"objects"`
	Healthy int32    `json:"healthy"`
	// Reason and Message are its problem, Advice what to do about it; empty when there is none.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// Delivered says that what its sources hold is applied and healthy, Failed that it needs a
	// person.
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

// Summary is what a person or script needs to go on.
type Summary struct {
	Server     string    `json:"server"`               // base URL of the hub
	Tunnel     string    `json:"tunnel"`               // base URL of the tunnel
	Repository string    `json:"repository"`           // URL of what is delivered
	Pushable   bool      `json:"pushable"`             // the repository is the local demo
	Config     string    `json:"config"`               // path for LEAT_CONFIG
	CAFile     string    `json:"caFile"`               // path of the tunnel's authority
	DataDir    string    `json:"dataDir"`              // path
	Logs       string    `json:"logs"`                 // path of the folder
	Namespace  string    `json:"namespace,omitempty"`  // of the services
	SearchPath string    `json:"searchPath,omitempty"` // folder of leat, when it is not on the PATH
	Kubectl    string    `json:"kubectl"`              // command or path
	Clusters   []Cluster `json:"clusters"`
	Services   []Service `json:"services"`
}

// Reporter receives events, from one goroutine at a time.
type Reporter func(Event)
