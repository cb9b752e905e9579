package kinds

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// addEvents makes the core Event the internal form of both groups.
func addEvents(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: eventsv1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &corev1.Event{}, &corev1.EventList{})
	for _, conversion := range eventConversions {
		if err := scheme.AddConversionFunc(conversion.from, conversion.to, conversion.convert); err != nil {
			return err
		}
	}
	return nil
}

var eventConversions = []struct {
	from, to any
	convert  conversion.ConversionFunc
}{
	{(*eventsv1.Event)(nil), (*corev1.Event)(nil), func(from, to any, _ conversion.Scope) error {
		*to.(*corev1.Event) = coreEvent(from.(*eventsv1.Event))
		return nil
	}},
	{(*corev1.Event)(nil), (*eventsv1.Event)(nil), func(from, to any, _ conversion.Scope) error {
		*to.(*eventsv1.Event) = groupEvent(from.(*corev1.Event))
		return nil
	}},
	{(*corev1.EventList)(nil), (*eventsv1.EventList)(nil), func(from, to any, _ conversion.Scope) error {
		list := from.(*corev1.EventList)
		items := make([]eventsv1.Event, len(list.Items))
		for i := range list.Items {
			items[i] = groupEvent(&list.Items[i])
		}
		*to.(*eventsv1.EventList) = eventsv1.EventList{ListMeta: list.ListMeta, Items: items}
		return nil
	}},
}

// coreEvent and groupEvent copy field by field: the two shapes hold the same
// facts under different names.
func coreEvent(event *eventsv1.Event) corev1.Event {
	return corev1.Event{
		ObjectMeta:          event.ObjectMeta,
		InvolvedObject:      event.Regarding,
		Related:             event.Related,
		Reason:              event.Reason,
		Message:             event.Note,
		Type:                event.Type,
		Action:              event.Action,
		EventTime:           event.EventTime,
		Series:              (*corev1.EventSeries)(event.Series),
		ReportingController: event.ReportingController,
		ReportingInstance:   event.ReportingInstance,
		Source:              event.DeprecatedSource,
		FirstTimestamp:      event.DeprecatedFirstTimestamp,
		LastTimestamp:       event.DeprecatedLastTimestamp,
		Count:               event.DeprecatedCount,
	}
}

func groupEvent(event *corev1.Event) eventsv1.Event {
	return eventsv1.Event{
		ObjectMeta:               event.ObjectMeta,
		Regarding:                event.InvolvedObject,
		Related:                  event.Related,
		Reason:                   event.Reason,
		Note:                     event.Message,
		Type:                     event.Type,
		Action:                   event.Action,
		EventTime:                event.EventTime,
		Series:                   (*eventsv1.EventSeries)(event.Series),
		ReportingController:      event.ReportingController,
		ReportingInstance:        event.ReportingInstance,
		DeprecatedSource:         event.Source,
		DeprecatedFirstTimestamp: event.FirstTimestamp,
		DeprecatedLastTimestamp:  event.LastTimestamp,
		DeprecatedCount:          event.Count,
	}
}

func eventFields(object runtime.Object) fields.Set {
	event := object.(*corev1.Event)
	source := event.Source.Component
	if source == "" {
		source = event.ReportingController
	}
	return fields.Set{
		"involvedObject.kind":            event.InvolvedObject.Kind,
		"involvedObject.namespace":       event.InvolvedObject.Namespace,
		"involvedObject.name":            event.InvolvedObject.Name,
		"involvedObject.uid":             string(event.InvolvedObject.UID),
		"involvedObject.apiVersion":      event.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": event.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       event.InvolvedObject.FieldPath,
		"reason":                         event.Reason,
		"reportingComponent":             event.ReportingController,
		"source":                         source,
		"type":                           event.Type,
	}
}

// groupEventSelectors are the names that events.k8s.io has for the selectors
// of the core group.
var groupEventSelectors = map[string]string{
	"regarding.kind":            "involvedObject.kind",
	"regarding.namespace":       "involvedObject.namespace",
	"regarding.name":            "involvedObject.name",
	"regarding.uid":             "involvedObject.uid",
	"regarding.apiVersion":      "involvedObject.apiVersion",
	"regarding.resourceVersion": "involvedObject.resourceVersion",
	"regarding.fieldPath":       "involvedObject.fieldPath",
	"reportingController":       "reportingComponent",
}

// Limits of the real server on what an Event says.
const (
	maxEventReason   = 128
	maxEventInstance = 128
	maxEventMessage  = 1024
)

// validateEvent holds both groups' events to the rules that recorders break:
// the namespace, and the fields that go with eventTime.
func validateEvent(object, _ runtime.Object) field.ErrorList {
	event := object.(*corev1.Event)
	errs := validateEventNamespace(event)
	if event.EventTime.IsZero() {
		return errs
	}
	errs = append(errs, requireEventText(event.Reason, maxEventReason, "reason")...)
	errs = append(errs, requireEventText(event.Action, maxEventReason, "action")...)
	errs = append(errs, requireEventText(event.ReportingInstance, maxEventInstance, "reportingInstance")...)
	errs = append(errs, requireEventText(event.ReportingController, validation.DNS1123SubdomainMaxLength, "reportingController")...)
	for _, problem := range validation.IsQualifiedName(event.ReportingController) {
		errs = append(errs, field.Invalid(field.NewPath("reportingController"), event.ReportingController, problem))
	}
	if len(event.Message) > maxEventMessage {
		errs = append(errs, field.TooLong(field.NewPath("message"), "", maxEventMessage))
	}
	return errs
}

// validateEventNamespace wants the event where its object is, and the event
// of a cluster-wide object in the default namespace.
func validateEventNamespace(event *corev1.Event) field.ErrorList {
	expected := event.InvolvedObject.Namespace
	if expected == "" {
		expected = metav1.NamespaceDefault
	}
	if event.Namespace == expected {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"),
		event.InvolvedObject.Namespace, "does not match event.namespace")}
}

func requireEventText(text string, limit int, name string) field.ErrorList {
	path := field.NewPath(name)
	switch {
	case text == "":
		return field.ErrorList{field.Required(path, "")}
	case len(text) > limit:
		return field.ErrorList{field.TooLong(path, "", limit)}
	default:
		return nil
	}
}

// validateGroupEvent adds what only a new event of events.k8s.io must satisfy.
func validateGroupEvent(object, old runtime.Object) field.ErrorList {
	event := object.(*corev1.Event)
	errs := validateEvent(object, old)
	if old != nil {
		return errs
	}
	if event.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), event.Type, "must be Normal or Warning"))
	}
	if event.Series != nil && event.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series", "count"), event.Series.Count, "should be at least 2"))
	}
	return errs
}
