// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// maxEventMessage is the bound of API servers for the message of an Event, in bytes.
const maxEventMessage = 1024

// Warn attaches an Event of type Warning to the agent's own Pod, which has that uid, where people and the agent that
// works see it. A longer message is cut.
func (l *Leadership) Warn(ctx context.Context, podUID, why, message string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c := l.client
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	pod, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name the Pod: %w", err)
	}
	now := metav1.NewTime(time.Now())
	_, err = set.CoreV1().Events(c.namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: leaseName + "-", Namespace: c.namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: c.namespace, Name: pod, UID: types.UID(podUID)},
		Type:           corev1.EventTypeWarning, Reason: why, Message: strings.ToValidUTF8(message[:min(len(message), maxEventMessage)], ""),
		Source: corev1.EventSource{Component: leaseName}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Event: %w", err)
	}
	return nil
}
