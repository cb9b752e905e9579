package kinds

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// attributes returns what label and field selectors match against.
func (k *Kind) attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	meta := accessor(object)
	set := fields.Set{}
	if k.selectable != nil {
		set = k.selectable(object)
	}
	set["metadata.name"] = meta.GetName()
	if k.namespaced {
		set["metadata.namespace"] = meta.GetNamespace()
	}
	return meta.GetLabels(), set, nil
}

// addFieldSelectors makes the selectors of each kind legal in requests; any
// other is answered 400.
func addFieldSelectors(scheme *runtime.Scheme) error {
	for _, kind := range table {
		convert := kind.selectorConversion()
		if err := scheme.AddFieldLabelConversionFunc(kind.groupVersionKind(), convert); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kind) selectorConversion() runtime.FieldLabelConversionFunc {
	_, known, err := k.attributes(k.newObject())
	return func(label, value string) (string, string, error) {
		if err != nil {
			return "", "", err
		}
		if renamed, ok := k.selectorNames[label]; ok {
			label = renamed
		}
		if _, ok := known[label]; !ok {
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		return label, value, nil
	}
}

func namespaceFields(object runtime.Object) fields.Set {
	namespace := object.(*corev1.Namespace)
	return fields.Set{"status.phase": string(namespace.Status.Phase), "name": namespace.Name}
}

func nodeFields(object runtime.Object) fields.Set {
	node := object.(*corev1.Node)
	return fields.Set{"spec.unschedulable": strconv.FormatBool(node.Spec.Unschedulable)}
}

func podFields(object runtime.Object) fields.Set {
	pod := object.(*corev1.Pod)
	return fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             pod.Status.PodIP,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

func serviceFields(object runtime.Object) fields.Set {
	service := object.(*corev1.Service)
	return fields.Set{"spec.clusterIP": service.Spec.ClusterIP, "spec.type": string(service.Spec.Type)}
}

func secretFields(object runtime.Object) fields.Set {
	return fields.Set{"type": string(object.(*corev1.Secret).Type)}
}

func replicationControllerFields(object runtime.Object) fields.Set {
	return fields.Set{"status.replicas": strconv.Itoa(int(object.(*corev1.ReplicationController).Status.Replicas))}
}

func replicaSetFields(object runtime.Object) fields.Set {
	return fields.Set{"status.replicas": strconv.Itoa(int(object.(*appsv1.ReplicaSet).Status.Replicas))}
}

func jobFields(object runtime.Object) fields.Set {
	return fields.Set{"status.successful": strconv.Itoa(int(object.(*batchv1.Job).Status.Succeeded))}
}
